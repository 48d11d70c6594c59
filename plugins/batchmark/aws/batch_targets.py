"""What AWS says of the targets that Terraform published, as boto3 answers it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from batchmark.config import Config, PurchaseOption, Target

# Gives the boto3 client of a service.
Clients = Callable[[str], Any]
NO_ANSWER = (BotoCoreError, ClientError)

DENIED = (
    "403",
    "AccessDenied",
    "AccessDeniedException",
    "AuthorizationError",
    "UnauthorizedOperation",
)
# How each service says that there is no such thing.
MISSING = (
    "404",
    "ImageNotFoundException",
    "NoSuchBucket",
    "NoSuchEntity",
    "NotFound",
    "RepositoryNotFoundException",
    "ResourceNotFoundException",
)

_ECR_IMAGE = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/"
    r"(?P<repository>[^:@]+)(:(?P<tag>[^@]+)|@(?P<digest>sha256:[0-9a-f]{64}))$"
)


def aws_clients(region: str) -> Clients:
    """One boto3 client per service, made when it is first asked for."""
    import boto3
    from botocore.config import Config as ClientConfig

    patience = ClientConfig(
        connect_timeout=10, read_timeout=30, retries={"mode": "standard", "max_attempts": 4}
    )

    @cache
    def client(service: str) -> Any:
        return boto3.client(service, region_name=region, config=patience)

    return client


def error_code(error: BotoCoreError | ClientError) -> str | None:
    """AWS's code of an answer; None where there was no answer at all."""
    return error.response["Error"]["Code"] if isinstance(error, ClientError) else None


def is_there(call: Callable[..., object], **arguments: Any) -> bool:
    """Whether AWS knows what this call asks about; an error of any other kind is raised."""
    try:
        call(**arguments)
    except ClientError as error:
        if error_code(error) in MISSING:
            return False
        raise
    return True


def why_unread(error: BotoCoreError | ClientError) -> str:
    """Why a question has no answer, and what lets it have one."""
    if (code := error_code(error)) is None:
        return f"no answer from AWS: {error}"
    message = error.response["Error"].get("Message", "")
    text = f"{code}: {message}" if message else str(code)
    if code in DENIED:
        text += " (attach the policies of `terraform output airflow_policy_arns` to Airflow's role)"
    return text


def name_of(arn: str) -> str:
    """The last part of an ARN: of a compute environment, a queue, a role, an instance profile."""
    return arn.rpartition("/")[2]


class Image(NamedTuple):
    """A container image in ECR, by tag or by digest."""

    account: str
    region: str
    repository: str
    tag: str | None
    digest: str | None

    @classmethod
    def parse(cls, uri: str) -> Image | None:
        """None for an image that lies elsewhere, or that names neither tag nor digest."""
        found = _ECR_IMAGE.match(uri)
        if not found:
            return None
        return cls(**{name: found[name] for name in cls._fields})

    @property
    def id(self) -> dict[str, str]:
        """As ECR wants it."""
        return {"imageDigest": self.digest} if self.digest else {"imageTag": self.tag or ""}


class BatchEnvironment:
    """The AWS side of some targets. Each question is asked once, when its answer is needed.

    Every property and method may raise `botocore.exceptions.ClientError` or `BotoCoreError`.
    """

    def __init__(self, config: Config, targets: Mapping[str, Target], client: Clients) -> None:
        self.config = config
        self.targets = targets
        self.client = client

    @cached_property
    def compute_environments(self) -> dict[str, dict[str, Any]]:
        """DescribeComputeEnvironments, by name."""
        names = [
            name
            for target in self.targets.values()
            for name in published_environments(target).values()
        ]
        answer = self.client("batch").describe_compute_environments(computeEnvironments=names)
        return {one["computeEnvironmentName"]: one for one in answer["computeEnvironments"]}

    @cached_property
    def job_queues(self) -> dict[str, dict[str, Any]]:
        """DescribeJobQueues, by ARN."""
        answer = self.client("batch").describe_job_queues(jobQueues=published_queues(self.targets))
        return {one["jobQueueArn"]: one for one in answer["jobQueues"]}

    @cached_property
    def job_definitions(self) -> dict[str, dict[str, Any]]:
        """DescribeJobDefinitions, by ARN."""
        arns = [target.job_definition for target in self.targets.values()]
        answer = self.client("batch").describe_job_definitions(jobDefinitions=arns)
        return {one["jobDefinitionArn"]: one for one in answer["jobDefinitions"]}

    @cached_property
    def instance_vcpus(self) -> dict[str, int]:
        """vCPUs of one instance, by instance type."""
        types = sorted({target.instance_type for target in self.targets.values()})
        answer = self.client("ec2").describe_instance_types(InstanceTypes=types)
        return {
            one["InstanceType"]: one["VCpuInfo"]["DefaultVCpus"] for one in answer["InstanceTypes"]
        }

    def newest_revision(self, definition_name: str) -> int:
        """Of a job definition's ACTIVE revisions the newest; 0 without any."""
        pages = (
            self.client("batch")
            .get_paginator("describe_job_definitions")
            .paginate(jobDefinitionName=definition_name, status="ACTIVE")
        )
        return max((one["revision"] for page in pages for one in page["jobDefinitions"]), default=0)


def published_environments(target: Target) -> dict[PurchaseOption, str]:
    """A target's compute environments by purchase option, in the order its queue tries them."""
    named = target.compute_environments
    environments: dict[PurchaseOption, str | None] = {
        "spot": named.spot,
        "on_demand": named.on_demand,
    }
    return {purchase: name for purchase, name in environments.items() if name is not None}


def published_queues(targets: Mapping[str, Target]) -> list[str]:
    """The ARNs of all queues of these targets."""
    queues = [
        queue
        for target in targets.values()
        for queue in (target.job_queue, target.on_demand_queue)
        if queue is not None
    ]
    return list(dict.fromkeys(queues))
