"""Reads who calls which operation on which resource, from a request to any AWS service."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote
from wsgiref.types import WSGIEnvironment

from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.utils import get_service_model
from moto.iam.models import get_account_id_from

# Credential=KEY/DATE/REGION/SERVICE/aws4_request, in the header or in a presigned URL.
CREDENTIAL = re.compile(
    r"(?P<key>[^/\s=]+)/\d{8}/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request"
)
# botocore still presigns S3 URLs with signature version 2.
OLD_CREDENTIAL = re.compile(r"(?:^|&)AWSAccessKeyId=(?P<key>[^&]+)")
# Services whose requests are signed with another name than botocore's, which is also IAM's.
SIGNED_AS = {"monitoring": "cloudwatch"}

# IAM's service name -> botocore's, where they differ.
BOTOCORE_NAMES = {"servicequotas": "service-quotas"}
WITHOUT_REGION = ("iam",)

# (service, parameter) -> the end of the ARN that its value names.
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
    """The credentials and target in a request's signature."""

    access_key_id: str
    region: str
    service: str

    def arn(self, ending: str, name: str, stream: str | None) -> str:
        """Of a resource that a request names, and the log stream that it names."""
        account = get_account_id_from(self.access_key_id)
        region = "" if self.service in WITHOUT_REGION else self.region
        name = name.removeprefix("/") if self.service == "ssm" else name
        of_stream = f":log-stream:{stream}" if stream else ""
        named = ending.format(name, stream=of_stream)
        return f"arn:aws:{self.service}:{region}:{account}:{named}"


def describe(environ: WSGIEnvironment) -> dict[str, Any]:
    """The fields of `Recorder`, without time and status. The request's body stays readable."""
    caller = caller_of(environ)
    if caller is None:
        return dict.fromkeys(("access_key_id", "service", "operation", "resources", "conditions"))
    call = {"access_key_id": caller.access_key_id, "service": caller.service}
    try:
        operation, parameters = _operation(environ, caller.service)
        resources = sorted(set(_resources(caller, parameters)))
        conditions = _conditions(caller, parameters)
        if caller.service == "s3" and "HTTP_IF_NONE_MATCH" in environ:
            conditions["s3:if-none-match"] = [environ["HTTP_IF_NONE_MATCH"]]
    except Exception:  # the application refuses what can't be parsed
        operation, resources, conditions = None, [], {}
    return {**call, "operation": operation, "resources": resources, "conditions": conditions}


def caller_of(environ: WSGIEnvironment) -> Caller | None:
    """Who signed a request; None if it is not signed."""
    query = unquote(environ.get("QUERY_STRING", ""))
    if found := CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION") or query):
        service = SIGNED_AS.get(found["service"], found["service"])
        return Caller(found["key"], found["region"], service)
    if found := OLD_CREDENTIAL.search(query):
        return Caller(found["key"], "us-east-1", "s3")
    return None


def body_of(environ: WSGIEnvironment) -> bytes:
    """A request's body, which the application can still read."""
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _operation(environ: WSGIEnvironment, service: str) -> tuple[str, dict[str, Any]]:
    """The operation's name and parameters, parsed by botocore's model of the service."""
    # S3's operations follow from the path, and its bodies are large.
    body = b"" if service == "s3" else body_of(environ)
    request = Request({**environ, "wsgi.input": io.BytesIO(body)}, populate_request=False)
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
    """The ARNs in the parameters, and those of resources that they name."""
    if caller.service == "s3":
        if bucket := parameters.get("Bucket"):
            key = parameters.get("Key")
            yield f"arn:aws:s3:::{bucket}/{key}" if key else f"arn:aws:s3:::{bucket}"
        return
    for parameter, value in parameters.items():
        ending = NAMED_RESOURCES.get((caller.service, parameter))
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, str) and name.startswith("arn:"):
                yield name
            elif ending:
                yield caller.arn(ending, name, parameters.get("logStreamName"))


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
