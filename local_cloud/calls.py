"""Identifies the caller, operation and resources in a request to any AWS service."""

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
# Services whose signing name differs from botocore's name, which is also IAM's.
SIGNED_AS = {"monitoring": "cloudwatch", "tagging": "tag"}

# IAM's service name -> botocore's, if they differ.
BOTOCORE_NAMES = {"servicequotas": "service-quotas", "tag": "resourcegroupstaggingapi"}
WITHOUT_REGION = ("budgets", "iam")

# (service, parameter) -> the end of the ARN that its value names. A parameter whose meaning depends
# on the operation has that before it; another parameter used in the ARN is in braces.
NAMED_RESOURCES = {
    ("athena", "CreateWorkGroup.Name"): "workgroup/{}",
    ("athena", "WorkGroup"): "workgroup/{}",
    ("batch", "computeEnvironment"): "compute-environment/{}",
    ("batch", "computeEnvironmentName"): "compute-environment/{}",
    ("batch", "jobDefinition"): "job-definition/{}",
    ("batch", "jobDefinitionName"): "job-definition/{}",
    ("batch", "jobId"): "job/{}",
    ("batch", "jobQueue"): "job-queue/{}",
    ("batch", "jobQueueName"): "job-queue/{}",
    ("budgets", "Budget"): "budget/{}",
    ("budgets", "BudgetName"): "budget/{}",
    ("cloudwatch", "AlarmName"): "alarm:{}",
    ("cloudwatch", "AlarmNames"): "alarm:{}",
    ("cloudwatch", "DashboardName"): "dashboard/{}",
    ("cloudwatch", "DashboardNames"): "dashboard/{}",
    ("ec2", "DeletePlacementGroup.GroupName"): "placement-group/{}",
    ("ecr", "repositoryName"): "repository/{}",
    ("ecr", "repositoryNames"): "repository/{}",
    ("eks", "CreateCluster.name"): "cluster/{}",
    ("eks", "DeleteCluster.name"): "cluster/{}",
    ("eks", "DescribeCluster.name"): "cluster/{}",
    ("eks", "clusterName"): "cluster/{}",
    ("events", "Name"): "rule/{}",
    ("events", "Rule"): "rule/{}",
    ("fsx", "FileSystemId"): "file-system/{}",
    ("glue", "DatabaseInput"): "database/{}",
    ("glue", "DatabaseName"): "database/{}",
    ("glue", "DeleteDatabase.Name"): "database/{}",
    ("glue", "DeleteTable.Name"): "table/{DatabaseName}/{}",
    ("glue", "GetDatabase.Name"): "database/{}",
    ("glue", "GetTable.Name"): "table/{DatabaseName}/{}",
    ("glue", "TableInput"): "table/{DatabaseName}/{}",
    ("glue", "TableName"): "table/{DatabaseName}/{}",
    ("iam", "CreatePolicy.PolicyName"): "policy/{}",
    ("iam", "InstanceProfileName"): "instance-profile/{}",
    ("iam", "RoleName"): "role/{}",
    ("kms", "AliasName"): "{}",
    ("kms", "KeyId"): "key/{}",
    ("kms", "TargetKeyId"): "key/{}",
    ("logs", "logGroupName"): "log-group:{}{stream}",
    ("sns", "CreateTopic.Name"): "{}",
    ("ssm", "Name"): "parameter/{}",
    ("ssm", "Names"): "parameter/{}",
    ("ssm", "ResourceId"): "parameter/{}",
}
# Prefix of an EC2 id -> the type of its resource.
EC2_TYPES = {
    "eipalloc": "elastic-ip",
    "fl": "vpc-flow-log",
    "i": "instance",
    "igw": "internet-gateway",
    "lt": "launch-template",
    "nat": "natgateway",
    "rtb": "route-table",
    "sg": "security-group",
    "subnet": "subnet",
    "vpc": "vpc",
    "vpce": "vpc-endpoint",
}
EC2_ID = re.compile(rf"({'|'.join(EC2_TYPES)})-[0-9a-f]+")


class Caller(NamedTuple):
    """The access key, region and service named in a request's signature."""

    access_key_id: str
    region: str
    service: str

    def arn(self, ending: str) -> str:
        """Return the ARN of a resource in the caller's account."""
        account = get_account_id_from(self.access_key_id)
        if self.service == "ssm" and ending.startswith("parameter/aws/"):
            account = ""  # AWS's public parameters belong to no account
        regional = self.service not in WITHOUT_REGION and not ending.startswith("dashboard/")
        return f"arn:aws:{self.service}:{self.region if regional else ''}:{account}:{ending}"


def describe(environ: WSGIEnvironment) -> dict[str, Any]:
    """Return what `--record-calls` writes about a call, except for the time and the status.

    The application can still read the request's body afterwards.
    """
    caller = caller_of(environ)
    if caller is None:
        return dict.fromkeys(("access_key_id", "service", "operation", "resources", "conditions"))
    call = {"access_key_id": caller.access_key_id, "service": caller.service}
    try:
        operation, parameters = _operation(environ, caller.service)
        resources = sorted(set(_resources(caller, operation, parameters)))
        conditions = _conditions(caller, parameters)
        if caller.service == "s3" and "HTTP_IF_NONE_MATCH" in environ:
            conditions["s3:if-none-match"] = [environ["HTTP_IF_NONE_MATCH"]]
    except Exception:  # the application rejects what can't be parsed
        operation, resources, conditions = None, [], {}
    return {**call, "operation": operation, "resources": resources, "conditions": conditions}


def caller_of(environ: WSGIEnvironment) -> Caller | None:
    """Return who signed a request, or None if it is not signed."""
    query = unquote(environ.get("QUERY_STRING", ""))
    if found := CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION") or query):
        service = SIGNED_AS.get(found["service"], found["service"])
        return Caller(found["key"], found["region"], service)
    if found := OLD_CREDENTIAL.search(query):
        return Caller(found["key"], "us-east-1", "s3")
    return None


def body_of(environ: WSGIEnvironment) -> bytes:
    """Read a request's body and leave it readable for the application."""
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _operation(environ: WSGIEnvironment, service: str) -> tuple[str, dict[str, Any]]:
    """Return the operation's name and parameters, parsed with botocore's model of the service."""
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


def _resources(caller: Caller, operation: str, parameters: dict[str, Any]) -> Iterator[str]:
    """Yield the ARNs in the parameters, and the ARNs of resources given by name."""
    if caller.service == "s3":
        if bucket := parameters.get("Bucket"):
            key = parameters.get("Key")
            yield f"arn:aws:s3:::{bucket}/{key}" if key else f"arn:aws:s3:::{bucket}"
        return
    stream = parameters.get("logStreamName")
    beside = {**parameters, "stream": f":log-stream:{stream}" if stream else ""}
    for parameter, value in parameters.items():
        ending = NAMED_RESOURCES.get(
            (caller.service, f"{operation}.{parameter}")
        ) or NAMED_RESOURCES.get((caller.service, parameter))
        for name in _names(value):
            if name.startswith("arn:"):
                yield name
            elif ending:
                bare = name.removeprefix("/") if caller.service == "ssm" else name
                yield caller.arn(ending.format(bare, **beside))
            elif caller.service == "ec2" and (found := EC2_ID.fullmatch(name)):
                yield caller.arn(f"{EC2_TYPES[found[1]]}/{name}")


def _names(value: object) -> list[str]:
    """Return the strings in a parameter or, if it describes a resource, the resource's name."""
    if isinstance(value, dict):
        value = value.get("Name", value.get("BudgetName"))
    values = value if isinstance(value, list) else [value]
    return [name for name in values if isinstance(name, str)]


def _conditions(caller: Caller, parameters: dict[str, Any]) -> dict[str, list[str]]:
    found = {}
    specifications = parameters.get("TagSpecifications") or [{}]
    if tags := (
        parameters.get("tags")
        or parameters.get("Tags")
        or parameters.get("ResourceTags")
        or specifications[0].get("Tags")
    ):
        values = tags if isinstance(tags, dict) else dict(map(_key_and_value, tags))
        found["aws:TagKeys"] = sorted(values)
        found |= {f"aws:RequestTag/{key}": [values[key]] for key in sorted(values)}
    if caller.service == "cloudwatch" and "Namespace" in parameters:
        found["cloudwatch:namespace"] = [parameters["Namespace"]]
    return found


def _key_and_value(tag: dict[str, str]) -> tuple[str, str]:
    """Return a tag's key and value; KMS calls these fields TagKey and TagValue."""
    plain = {name.lower().removeprefix("tag"): value for name, value in tag.items()}
    return plain["key"], plain["value"]
