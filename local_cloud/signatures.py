"""Checks AWS signatures, so that users of this machine who lack the secret can't make calls."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError
from moto.iam.models import iam_backends
from werkzeug.datastructures import EnvironHeaders
from werkzeug.wrappers import Response

from local_cloud.calls import body_of, caller_of
from local_cloud.faults import errors

AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256\s+Credential=(?P<credential>[^\s,]+)\s*,\s*"
    r"SignedHeaders=(?P<headers>[^\s,]+)\s*,\s*Signature=(?P<signature>[^\s,]+)"
)
SIGNATURE_IN_QUERY = re.compile(r"(\?)X-Amz-Signature=[^&]*&?|&X-Amz-Signature=[^&]*")
# Headers that version 2 signs; presigned URLs have them in the query.
OF_VERSION_2 = re.compile(r"x-amz-.*|content-md5|content-type", re.IGNORECASE)
TIME = "%Y%m%dT%H%M%SZ"
# These sign a path as it is sent; the other services sign it URL-encoded once more.
S3 = ("s3", "s3express", "s3-object-lambda", "s3-outposts")
# By (is S3, signature is in the query).
SIGNERS = {
    (False, False): auth.SigV4Auth,
    (False, True): auth.SigV4QueryAuth,
    (True, False): auth.S3SigV4Auth,
    (True, True): auth.S3SigV4QueryAuth,
}


class SignedRequests:
    """WSGI middleware that serves only requests signed with the secret; any access key id will do.

    Requests with keys issued here by IAM or STS must be signed with those keys' secrets instead.
    Presigned URLs are accepted until they expire, including version 2 URLs, which botocore creates
    for S3. Neither the age of a signature in a header nor the payload of an S3 upload is checked.

    Args:
        hint: tells refused clients where to find the secret.
    """

    def __init__(self, app: WSGIApplication, secret: str, hint: str) -> None:
        self._app = app
        self._secret = secret
        self._hint = hint

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
        if not self._is_signed(environ, query):
            answer = self._refusal(environ)
        elif "HTTP_AUTHORIZATION" not in environ and now() > (end := end_of(query)):
            answer = expired(environ, end)
        else:
            return self._app(environ, start_response)
        return answer(environ, start_response)

    def _is_signed(self, environ: WSGIEnvironment, query: Mapping[str, str]) -> bool:
        try:
            if "HTTP_AUTHORIZATION" in environ:
                signed = Signed.of(in_header(environ), is_presigned=False)
            elif "X-Amz-Signature" in query:
                signed = Signed.of(query, is_presigned=True)
                end_of(query)
            else:
                return self._is_signed_by_version_2(environ, query)
            expected = signed.expected(environ, self._secret_of(signed.access_key_id))
        except (KeyError, ValueError):
            return False
        return hmac.compare_digest(expected.encode(), signed.signature.encode())

    def _is_signed_by_version_2(self, environ: WSGIEnvironment, query: Mapping[str, str]) -> bool:
        end_of(query)
        secret = self._secret_of(query["AWSAccessKeyId"])
        signer = auth.HmacV1QueryAuth(Credentials(query["AWSAccessKeyId"], secret))
        signer._get_date = lambda: query["Expires"]
        request = request_of(
            environ, filter(OF_VERSION_2.fullmatch, EnvironHeaders(environ).keys())
        )
        for name in filter(OF_VERSION_2.fullmatch, query):
            request.headers[name] = query[name]
        text = signer.canonical_string(request.method, urlsplit(request.url), request.headers)
        return hmac.compare_digest(signer.sign_string(text).encode(), query["Signature"].encode())

    def _secret_of(self, access_key_id: str) -> str:
        """Return the key's own secret if it was issued here, otherwise the local cloud's secret."""
        for account in list(iam_backends.values()):
            for backend in list(account.values()):
                if key := backend.access_keys.get(access_key_id):
                    return str(key.secret_access_key)
        return self._secret

    def _refusal(self, environ: WSGIEnvironment) -> Response:
        caller = caller_of(environ)
        code = "SignatureDoesNotMatch" if caller else "MissingAuthenticationToken"
        message = f"The local cloud accepts only requests signed with its secret: {self._hint}"
        return refusal(environ, caller.service if caller else "s3", code, message)


def refusal(environ: WSGIEnvironment, service: str, code: str, message: str) -> Response:
    error = errors.ServiceError(code, HTTPStatus.FORBIDDEN, message)
    try:
        protocol = errors.protocol_of(service, environ.get("CONTENT_TYPE"))
    except BotoCoreError:  # botocore's name for the service differs
        protocol = "json"
    return errors.response(protocol, error)


def expired(environ: WSGIEnvironment, end: datetime) -> Response:
    """Return the response to an expired presigned URL, in the wording of the called service."""
    caller = caller_of(environ)
    if caller is None or caller.service in S3:
        return refusal(environ, "s3", "AccessDenied", "Request has expired")
    message = f"Signature expired: {end:{TIME}} is now earlier than {now():{TIME}}"
    return refusal(environ, caller.service, "SignatureDoesNotMatch", message)


def end_of(query: Mapping[str, str]) -> datetime:
    """Return when a presigned URL expires.

    Raises:
        KeyError: a field is missing.
        ValueError: a field is not a valid time.
    """
    try:
        if "X-Amz-Signature" not in query:
            return datetime.fromtimestamp(int(query["Expires"]), UTC)
        signed_at = datetime.strptime(query["X-Amz-Date"], TIME).replace(tzinfo=UTC)
        return signed_at + timedelta(seconds=int(query["X-Amz-Expires"]))
    except (OverflowError, OSError) as error:
        raise ValueError("the date is out of range") from error


def now() -> datetime:
    return datetime.now(UTC)


class Signed(NamedTuple):
    """A version 4 signature and its parameters."""

    access_key_id: str
    region: str
    service: str
    headers: tuple[str, ...]
    time: str
    signature: str
    is_presigned: bool

    @classmethod
    def of(cls, fields: Mapping[str, str], *, is_presigned: bool) -> Self:
        """Parse fields named as in a presigned URL, or raise KeyError or ValueError."""
        access_key_id, _, region, service, _ = fields["X-Amz-Credential"].split("/")
        names = tuple(fields["X-Amz-SignedHeaders"].lower().split(";"))
        time, signature = fields["X-Amz-Date"], fields["X-Amz-Signature"]
        return cls(access_key_id, region, service, names, time, signature, is_presigned)

    def expected(self, environ: WSGIEnvironment, secret: str) -> str:
        """Compute the expected signature with this secret, using botocore's own signer."""
        body = b"" if self.service in S3 else body_of(environ)
        request = request_of(environ, self.headers, body)
        request.url = SIGNATURE_IN_QUERY.sub(r"\1", request.url)
        request.context["timestamp"] = self.time
        signer = SIGNERS[self.service in S3, self.is_presigned](
            Credentials(self.access_key_id, secret), self.service, self.region
        )
        # It would sign headers that a proxy may add, and omit headers that clients do sign.
        signer.headers_to_sign = lambda request: request.headers
        text = signer.string_to_sign(request, signer.canonical_request(request))
        return str(signer.signature(text, request))


def in_header(environ: WSGIEnvironment) -> dict[str, str]:
    """Return the signature in the Authorization header, with fields named as in a presigned URL.

    Raises:
        KeyError: a required header is missing.
        ValueError: the header has no valid signature.
    """
    found = AUTHORIZATION.fullmatch(environ["HTTP_AUTHORIZATION"].strip())
    if found is None:
        raise ValueError(environ["HTTP_AUTHORIZATION"])
    return {
        "X-Amz-Credential": found["credential"],
        "X-Amz-SignedHeaders": found["headers"],
        "X-Amz-Signature": found["signature"],
        "X-Amz-Date": environ["HTTP_X_AMZ_DATE"],
    }


def request_of(environ: WSGIEnvironment, names: Iterable[str], body: bytes = b"") -> AWSRequest:
    """Rebuild the request as it was sent, but with only these headers.

    Raises:
        KeyError: one of these headers is missing.
    """
    url = f"http://{environ.get('HTTP_HOST', '')}{environ['REQUEST_URI']}"
    sent = EnvironHeaders(environ)
    headers = {name: sent[name] for name in names}
    return AWSRequest(environ["REQUEST_METHOD"], url, headers, data=body)
