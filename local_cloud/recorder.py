"""Writes down who called what: the evidence that policies allow enough and no more."""

from __future__ import annotations

import io
import json
import re
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.utils import get_service_model
from moto.iam.models import get_account_id_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

# Credential=KEY/DATE/REGION/SERVICE/aws4_request, in the header or in a presigned address.
CREDENTIAL = re.compile(
    r"(?P<key>[^/\s=]+)/\d{8}/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request"
)
# botocore still presigns S3 addresses the old way.
OLD_CREDENTIAL = re.compile(r"(?:^|&)AWSAccessKeyId=(?P<key>[^&]+)")
# Where requests are signed for another name than botocore's, which is also IAM's.
SIGNED_AS = {"monitoring": "cloudwatch"}

# IAM's name of a service -> botocore's, where they differ.
BOTOCORE_NAMES = {"servicequotas": "service-quotas"}
WITHOUT_REGION = ("iam",)

# (service, parameter) -> the end of the ARN that its value stands for.
NAMED_RESOURCES = {
    ("batch", "jobDefinition"): "job-definition/{}",
    ("batch", "jobId"): "job/{}",
    ("batch", "jobQueue"): "job-queue/{}",
    ("ec2", "InstanceIds"): "instance/{}",
    ("ecr", "repositoryName"): "repository/{}",
    ("ecr", "repositoryNames"): "repository/{}",
    ("fsx", "FileSystemId"): "file-system/{}",
    ("iam", "InstanceProfileName"): "instance-profile/{}",
    ("iam", "RoleName"): "role/{}",
    ("logs", "logGroupName"): "log-group:{}{stream}",
    ("ssm", "Name"): "parameter/{}",
    ("ssm", "Names"): "parameter/{}",
}


class Caller(NamedTuple):
    """What a request's signature says."""

    access_key_id: str
    region: str
    service: str


class Recorder:
    """WSGI middleware that appends one JSON line per request to a file.

    Each line has `time` (UTC), `access_key_id`, `service` and `operation` (as in an IAM action),
    `resources` (ARNs, as far as the request names them), `conditions` (values of IAM's condition
    keys that the request carries) and the HTTP `status`. What can't be told is null.
    """

    def __init__(self, app: WSGIApplication, path: Path) -> None:
        self._app = app
        self._file = path.open("a", buffering=1, encoding="utf-8")
        self._lock = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        call = describe(environ)
        status = 500

        def start(line: str, *arguments: Any) -> Callable[[bytes], object]:
            nonlocal status
            status = int(line.split(maxsplit=1)[0])
            return start_response(line, *arguments)

        try:
            return self._app(environ, start)
        finally:
            self._write({"time": datetime.now(UTC).isoformat(), **call, "status": status})

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _write(self, line: dict[str, Any]) -> None:
        with self._lock:
            if not self._file.closed:  # a last request may still be on its way
                self._file.write(json.dumps(line) + "\n")


def describe(environ: WSGIEnvironment) -> dict[str, Any]:
    """All of a request's line but the time and the answer; its body can still be read."""
    caller = caller_of(environ)
    if caller is None:
        return dict.fromkeys(("access_key_id", "service", "operation", "resources", "conditions"))
    known = {"access_key_id": caller.access_key_id, "service": caller.service}
    try:
        operation, parameters = _operation(environ, caller.service)
        return {
            **known,
            "operation": operation,
            "resources": sorted(set(_resources(caller, parameters))),
            "conditions": _conditions(caller, parameters),
        }
    except Exception:  # what can't be read is the application's to refuse
        return {**known, "operation": None, "resources": [], "conditions": {}}


def caller_of(environ: WSGIEnvironment) -> Caller | None:
    """Who signed a request; None where nobody did."""
    query = unquote(environ.get("QUERY_STRING", ""))
    if found := CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION") or query):
        service = SIGNED_AS.get(found["service"], found["service"])
        return Caller(found["key"], found["region"], service)
    if found := OLD_CREDENTIAL.search(query):
        return Caller(found["key"], "us-east-1", "s3")
    return None


def _own_request(environ: WSGIEnvironment, service: str) -> Request:
    """A request whose body can be read here and again by the application."""
    body = b""
    if service != "s3":  # there the path says it all, and the body may be large
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
    return Request({**environ, "wsgi.input": io.BytesIO(body)}, populate_request=False)


def _operation(environ: WSGIEnvironment, service: str) -> tuple[str, dict[str, Any]]:
    """The operation's name and its parameters, by the service's own model."""
    request = _own_request(environ, service)
    botocore_name = BOTOCORE_NAMES.get(service, service)
    operation, uri_parameters = get_service_router(botocore_name).match(request)
    if service == "s3":
        return operation.name, uri_parameters
    protocol = determine_request_protocol(get_service_model(botocore_name), request.content_type)
    parameters = PROTOCOL_PARSERS[protocol](operation).parse(
        {
            "method": request.method,
            "values": request.values,
            "headers": request.headers,
            "body": request.data,
            "url_path": request.path,
            "url_params": uri_parameters,
        }
    )
    return operation.name, parameters


def _resources(caller: Caller, parameters: dict[str, Any]) -> Iterator[str]:
    """The ARNs that the parameters name, directly or by a name within account and region."""
    if caller.service == "s3":
        if bucket := parameters.get("Bucket"):
            key = parameters.get("Key")
            yield f"arn:aws:s3:::{bucket}/{key}" if key else f"arn:aws:s3:::{bucket}"
        return
    account = get_account_id_from(caller.access_key_id)
    region = "" if caller.service in WITHOUT_REGION else caller.region
    stream = parameters.get("logStreamName")
    for parameter, value in parameters.items():
        ending = NAMED_RESOURCES.get((caller.service, parameter))
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, str) and name.startswith("arn:"):
                yield name
            elif ending:
                yield f"arn:aws:{caller.service}:{region}:{account}:" + ending.format(
                    name.removeprefix("/") if caller.service == "ssm" else name,
                    stream=f":log-stream:{stream}" if stream else "",
                )


def _conditions(caller: Caller, parameters: dict[str, Any]) -> dict[str, list[str]]:
    found = {}
    if tags := parameters.get("tags") or parameters.get("Tags"):
        values = tags if isinstance(tags, dict) else dict(map(_key_and_value, tags))
        found["aws:TagKeys"] = sorted(values)
        found |= {f"aws:RequestTag/{key}": [values[key]] for key in sorted(values)}
    if caller.service == "cloudwatch" and "Namespace" in parameters:
        found["cloudwatch:namespace"] = [parameters["Namespace"]]
    return found


def _key_and_value(tag: dict[str, str]) -> tuple[str, str]:
    lowered = {name.lower(): value for name, value in tag.items()}
    return lowered["key"], lowered["value"]
