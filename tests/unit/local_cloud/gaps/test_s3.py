import pytest

from local_cloud.gaps.s3 import applying, holds


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({}, True),
        ({"Bool": {"aws:SecureTransport": "false"}}, False),
        ({"Bool": {"aws:SecureTransport": ["false"]}}, False),
        ({"Bool": {"aws:SecureTransport": "true"}}, True),
        ({"BoolIfExists": {"AWS:securetransport": "true"}}, True),
        ({"NumericLessThan": {"s3:TlsVersion": "1.2"}}, False),
        ({"NumericGreaterThanEquals": {"s3:TlsVersion": 1.2}}, False),
        ({"NumericLessThan": {"s3:TlsVersion": 1.4}}, True),
        ({"StringEquals": {"aws:PrincipalOrgID": "o-1"}}, False),
        ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, False),
        (
            {"Bool": {"aws:SecureTransport": "true"}, "NumericLessThan": {"s3:TlsVersion": "1.2"}},
            False,
        ),
    ],
)
def test_conditions(condition, expected):
    assert holds(condition) is expected


def test_statements_that_apply_come_without_their_conditions():
    always = {"Effect": "Allow", "Action": "s3:*"}
    when_secure = {"Effect": "Deny", "Condition": {"Bool": {"aws:SecureTransport": "true"}}}
    when_plain = {"Effect": "Deny", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}
    assert applying([always, when_secure, when_plain]) == [always, {"Effect": "Deny"}]
