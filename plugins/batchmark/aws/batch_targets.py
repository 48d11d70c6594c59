"""Describes the AWS resources behind the published targets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, get_args

from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.boto_clients import Clients, all_pages
from batchmark.core.config import Config, PurchaseOption, Target

NO_ANSWER = (BotoCoreError, ClientError)

DENIED = (
    "403",
    "AccessDenied",
    "AccessDeniedException",
    "AuthorizationError",
    "UnauthorizedOperation",
)
# Error codes of the services for a missing resource.
MISSING = (
    "404",
    "FileSystemNotFound",
    "ImageNotFoundException",
    "InvalidCapacityReservationId.NotFound",
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


def error_code(error: BotoCoreError | ClientError) -> str | None:
    """Return the error code in AWS's response, or None if there was no response."""
    return error.response["Error"]["Code"] if isinstance(error, ClientError) else None


def none_if_missing(call: Callable[..., Any], **arguments: Any) -> Any | None:
    """Call AWS and return the response, or None if the resource is missing. Raise other errors."""
    try:
        return call(**arguments)
    except ClientError as error:
        if error_code(error) in MISSING:
            return None
        raise


def why_unread(error: BotoCoreError | ClientError) -> str:
    """Explain why a call failed and, if permission was denied, how to grant it."""
    if (code := error_code(error)) is None:
        return f"AWS did not respond: {error}"
    message = error.response["Error"].get("Message", "")
    text = f"{code}: {message}" if message else str(code)
    if code in DENIED:
        text += " (attach the policies of `terraform output airflow_policy_arns` to Airflow's role)"
    return text


def name_of(arn: str) -> str:
    """Return the name at the end of an ARN, such as a queue's or a role's."""
    return arn.rpartition("/")[2]


class Image(NamedTuple):
    """A container image in ECR, identified by its tag or digest."""

    account: str
    region: str
    repository: str
    tag: str | None
    digest: str | None

    @classmethod
    def parse(cls, uri: str) -> Image | None:
        """Parse an image URI; return None if it isn't in ECR or has neither a tag nor a digest."""
        found = _ECR_IMAGE.match(uri)
        if not found:
            return None
        return cls(**{name: found[name] for name in cls._fields})

    @property
    def id(self) -> dict[str, str]:
        """The image identifier for ECR's API."""
        return {"imageDigest": self.digest} if self.digest else {"imageTag": self.tag or ""}


class BatchEnvironment:
    """The AWS resources behind some targets. Each kind is described on first use, then cached.

    Lookups can raise `botocore.exceptions.ClientError` or `BotoCoreError`.
    """

    def __init__(
        self,
        config: Config,
        targets: Mapping[str, Target],
        client: Clients,
        nodes: int = 1,
        *,
        foreign: bool = False,
        own_jobs: bool = False,
    ) -> None:
        self.config = config
        self.targets = targets
        self.client = client
        self.foreign = foreign  # whether others made queues and job definitions
        self.own_jobs = own_jobs  # whether definitions of users' own jobs replace the targets'
        self._nodes = nodes

    def instances_at_once(self, target: Target) -> int:
        """Return the number of instances that a target's largest job needs at once."""
        return self._nodes if target.most_nodes else 1

    def container_of(self, target: Target) -> dict[str, Any]:
        """Return the container in a target's job definition; empty if the definition is missing."""
        return container_of(self.job_definitions.get(target.job_definition, {}))

    @cached_property
    def compute_environments(self) -> dict[str, dict[str, Any]]:
        """The compute environments' descriptions, by name."""
        names = [
            name
            for target in self.targets.values()
            for name in published_environments(target).values()
        ]
        answer = self.client("batch").describe_compute_environments(computeEnvironments=names)
        return {found["computeEnvironmentName"]: found for found in answer["computeEnvironments"]}

    @cached_property
    def job_queues(self) -> dict[str, dict[str, Any]]:
        """The job queues' descriptions, by ARN."""
        answer = self.client("batch").describe_job_queues(jobQueues=published_queues(self.targets))
        return {found["jobQueueArn"]: found for found in answer["jobQueues"]}

    @cached_property
    def job_definitions(self) -> dict[str, dict[str, Any]]:
        """The job definitions' descriptions, by ARN."""
        arns = [target.job_definition for target in self.targets.values()]
        answer = self.client("batch").describe_job_definitions(jobDefinitions=arns)
        return {found["jobDefinitionArn"]: found for found in answer["jobDefinitions"]}

    @cached_property
    def instance_vcpus(self) -> dict[str, int]:
        """The default number of vCPUs of each target's instance type, by type."""
        types = sorted({target.instance_type for target in self.targets.values()})
        answer = self.client("ec2").describe_instance_types(InstanceTypes=types)
        return {
            found["InstanceType"]: found["VCpuInfo"]["DefaultVCpus"]
            for found in answer["InstanceTypes"]
        }


def newest_definition(batch: Any, name: str) -> dict[str, Any] | None:
    """Return the newest ACTIVE revision of a job definition, or None if there is none."""
    asked = {"jobDefinitionName": name, "status": "ACTIVE"}
    revisions = all_pages(batch, "describe_job_definitions", "jobDefinitions", **asked)
    return max(revisions, key=lambda found: int(found["revision"]), default=None)


def container_of(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job definition's container properties, or those of its first node range."""
    ranges = definition.get("nodeProperties", {}).get("nodeRangeProperties", ())
    found = definition.get("containerProperties") or (ranges[0].get("container") if ranges else {})
    return dict(found or {})


def requirements_of(container: Mapping[str, Any]) -> dict[str, float]:
    """Return a container's VCPU, MEMORY (MiB) and GPU requirements, including legacy fields."""
    fields = {"VCPU": container.get("vcpus"), "MEMORY": container.get("memory")}
    named = {each["type"]: each["value"] for each in container.get("resourceRequirements", ())}
    return {kind: float(value) for kind, value in (fields | named).items() if value}


def environment_names(queue: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names or ARNs of a queue's compute environments, in the order it tries them."""
    order = sorted(queue.get("computeEnvironmentOrder", ()), key=lambda each: int(each["order"]))
    return tuple(each["computeEnvironment"] for each in order)


def wanted_vcpus(batch: Any, environment: str) -> int:
    """Return a compute environment's desired vCPUs, or 0 if it doesn't exist."""
    answer = batch.describe_compute_environments(computeEnvironments=[environment])
    resources = [each.get("computeResources") or {} for each in answer["computeEnvironments"]]
    return sum(each.get("desiredvCpus") or 0 for each in resources)


def published_environments(target: Target) -> dict[PurchaseOption, str]:
    """Return a target's compute environments by purchase option, in its queue's order."""
    named = {name: getattr(target.compute_environments, name) for name in get_args(PurchaseOption)}
    return {purchase: name for purchase, name in named.items() if name is not None}


def published_queues(targets: Mapping[str, Target]) -> list[str]:
    """Return the ARNs of the targets' queues, without duplicates."""
    queues = [
        queue
        for target in targets.values()
        for queue in (target.job_queue, target.on_demand_queue)
        if queue is not None
    ]
    return list(dict.fromkeys(queues))
