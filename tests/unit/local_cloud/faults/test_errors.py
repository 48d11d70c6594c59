"""Errors, as botocore reads them."""

import botocore.session
import pytest
from botocore.parsers import create_parser

from local_cloud.faults import errors


@pytest.mark.parametrize(
    ("service", "content_type", "code", "status"),
    [
        ("batch", "application/json", "TooManyRequestsException", 429),
        ("logs", "application/x-amz-json-1.1", "ThrottlingException", 400),
        ("s3", "application/octet-stream", "SlowDown", 503),
        ("sns", "application/x-www-form-urlencoded", "Throttling", 400),
        ("ec2", "application/x-www-form-urlencoded", "RequestLimitExceeded", 503),
        ("cloudwatch", "application/cbor", "Throttling", 400),
    ],
)
def test_botocore_reads_the_throttling_of_each_protocol(service, content_type, code, status):
    protocol = errors.protocol_of(service, content_type)
    response = errors.response(protocol, errors.throttled(service))
    headers = {name.lower(): value for name, value in response.headers.items()}
    answer = {"status_code": response.status_code, "headers": headers, "body": response.get_data()}
    model = botocore.session.Session().get_service_model(service)
    shape = model.operation_model(model.operation_names[0]).output_shape
    parsed = create_parser(protocol).parse(answer, shape)
    assert response.status_code == status
    assert parsed["Error"]["Code"] == code
    assert parsed["Error"]["Message"]
