"""Builds error responses like those from AWS's services, in each protocol's format."""

from __future__ import annotations

import json
import uuid
from http import HTTPStatus
from typing import NamedTuple
from xml.sax.saxutils import escape

from moto.core.request import determine_request_protocol
from moto.core.utils import get_service_model
from werkzeug.wrappers import Response


class ServiceError(NamedTuple):
    code: str
    status: int
    message: str


def throttled(service: str) -> ServiceError:
    """Return a service's throttling error, using the codes in botocore's data/_retry.json."""
    if service == "s3":
        return ServiceError("SlowDown", 503, "Please reduce your request rate.")
    if service == "ec2":
        return ServiceError("RequestLimitExceeded", 503, "Request limit exceeded.")
    protocol = get_service_model(service).protocol
    if protocol == "rest-json":
        return ServiceError("TooManyRequestsException", 429, "Too Many Requests")
    if protocol == "json":
        return ServiceError("ThrottlingException", 400, "Rate exceeded")
    return ServiceError("Throttling", 400, "Rate exceeded")


def expired(service: str | None) -> ServiceError:
    """Return a service's error for expired credentials: S3 has its own, all others share one."""
    if service == "s3":
        return ServiceError("ExpiredToken", 400, "The provided token has expired.")
    message = "The security token included in the request is expired"
    return ServiceError("ExpiredTokenException", HTTPStatus.FORBIDDEN, message)


UNAVAILABLE = ServiceError(
    "ServiceUnavailable", HTTPStatus.SERVICE_UNAVAILABLE, "The service is unavailable."
)
REFUSED_WRITES = {
    "SlowDown": throttled("s3"),
    "AccessDenied": ServiceError("AccessDenied", HTTPStatus.FORBIDDEN, "Access Denied"),
}


def protocol_of(service: str | None, content_type: str | None) -> str:
    """Return a call's protocol, or JSON if the service is unknown."""
    if not service:
        return "json"
    model = get_service_model(service)
    try:
        return determine_request_protocol(model, content_type)
    except NotImplementedError:
        return str(model.protocol)


def response(protocol: str, error: ServiceError) -> Response:
    """Build the HTTP response for an error. Protocols are named as in botocore's models."""
    request_id = str(uuid.uuid4())
    headers = {"x-amzn-ErrorType": error.code, "x-amzn-RequestId": request_id}
    body: bytes | str
    if protocol == "smithy-rpc-v2-cbor":
        body = _cbor({"__type": error.code, "message": error.message})
        content_type = "application/cbor"
        headers["smithy-protocol"] = "rpc-v2-cbor"
    elif protocol in {"json", "rest-json"}:
        body = json.dumps({"__type": error.code, "message": error.message})
        content_type = "application/x-amz-json-1.1"
    else:
        body, content_type = _xml(protocol, error, request_id), "application/xml"
    return Response(body, status=error.status, content_type=content_type, headers=headers)


def _xml(protocol: str, error: ServiceError, request_id: str) -> str:
    fields = f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>"
    bodies = {
        "rest-xml": f"<Error>{fields}<RequestId>{request_id}</RequestId></Error>",
        "ec2": f"<Response><Errors><Error>{fields}</Error></Errors>"
        f"<RequestID>{request_id}</RequestID></Response>",
        "query": f"<ErrorResponse><Error><Type>Receiver</Type>{fields}</Error>"
        f"<RequestId>{request_id}</RequestId></ErrorResponse>",
    }
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{bodies[protocol]}'


def _cbor(fields: dict[str, str]) -> bytes:
    """Encode a map of up to 23 pairs of short strings as CBOR (RFC 8949)."""
    texts = [text.encode() for pair in fields.items() for text in pair]
    return bytes([0xA0 | len(fields)]) + b"".join(bytes([0x78, len(text)]) + text for text in texts)
