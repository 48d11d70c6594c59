"""Looks up the account's queues, job definitions, instances and so on, whoever created them.

Any function can raise `botocore.exceptions.ClientError` or `BotoCoreError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

from batchmark.aws.batch_targets import newest_definition
from batchmark.aws.boto_clients import all_pages

# The families that Batch may launch, by the API reference and, for `optimal` before it became the
# same as default_x86_64, the user guide.
_X86_64 = ("m6i", "c6i", "r6i", "c7i")
BUNDLES: Mapping[str, tuple[str, ...]] = {
    "optimal": ("c4", "m4", "r4", "c5", "m5", "r5", *_X86_64),
    "default_x86_64": _X86_64,
    "default_arm64": ("m6g", "c6g", "r6g", "c7g"),
}
_REVISION = re.compile(r":\d+$")
MOST_INSTANCES = 100  # of DescribeContainerInstances


class InstanceType(NamedTuple):
    """An instance type that a compute environment can launch."""

    name: str
    vcpus: int
    memory_mib: int
    gpus: int

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Self:
        return cls(
            name=described["InstanceType"],
            vcpus=described["VCpuInfo"]["DefaultVCpus"],
            memory_mib=described["MemoryInfo"]["SizeInMiB"],
            gpus=sum(each.get("Count", 0) for each in described.get("GpuInfo", {}).get("Gpus", ())),
        )

    def holds(self, other: InstanceType) -> bool:
        """Whether a job that needs all of `other` fits and leaves memory for the OS and ECS."""
        return (
            self.vcpus >= other.vcpus
            and self.memory_mib > other.memory_mib
            and self.gpus >= other.gpus
        )


def find_queue(batch: Any, queue: str) -> dict[str, Any] | None:
    """Find a queue by name or ARN; return None if it doesn't exist."""
    return next(iter(batch.describe_job_queues(jobQueues=[queue])["jobQueues"]), None)


def queue_names(batch: Any) -> list[str]:
    queues = all_pages(batch, "describe_job_queues", "jobQueues")
    return [queue["jobQueueName"] for queue in queues]


def find_definition(batch: Any, definition: str) -> dict[str, Any] | None:
    """Find a job definition by name or ARN. Without a revision, find the newest ACTIVE one."""
    if not _REVISION.search(definition):
        return newest_definition(batch, definition.rpartition("/")[2])
    answer = batch.describe_job_definitions(jobDefinitions=[definition])
    return next(iter(answer["jobDefinitions"]), None)


def find_environments(batch: Any, names: Sequence[str]) -> list[dict[str, Any]]:
    """Describe the compute environments with these names or ARNs, in this order, if they exist."""
    answer = batch.describe_compute_environments(computeEnvironments=list(names))
    found = {each["computeEnvironmentArn"]: each for each in answer["computeEnvironments"]}
    found |= {each["computeEnvironmentName"]: each for each in answer["computeEnvironments"]}
    return [found[name] for name in names if name in found]


def possible_types(ec2: Any, named: Iterable[str]) -> list[InstanceType]:
    """List the instance types in `named`, expanding families and bundles such as `optimal`."""
    values = [value for name in named for value in BUNDLES.get(name, (name,))]
    patterns = sorted({value if "." in value else f"{value}.*" for value in values})
    found = map(InstanceType.of, described_types(ec2, patterns))
    return sorted(found, key=lambda each: (each.vcpus, each.memory_mib, each.name))


def instances(ec2: Any, **asked: Any) -> Iterator[dict[str, Any]]:
    """Describe EC2 instances by `InstanceIds` or `Filters`."""
    for reservation in all_pages(ec2, "describe_instances", "Reservations", **asked):
        yield from reservation["Instances"]


def container_instances(ecs: Any, cluster: str, **asked: Any) -> list[dict[str, Any]]:
    """Describe an ECS cluster's container instances, up to the number that one call can return."""
    found = all_pages(
        ecs,
        "list_container_instances",
        "containerInstanceArns",
        cluster=cluster,
        PaginationConfig={"MaxItems": MOST_INSTANCES},
        **asked,
    )
    if not (arns := list(found)):
        return []
    answer = ecs.describe_container_instances(cluster=cluster, containerInstances=arns)
    return list(answer["containerInstances"])


def described_types(ec2: Any, patterns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Describe the EC2 instance types that match the patterns."""
    filters = [{"Name": "instance-type", "Values": patterns}]
    return all_pages(ec2, "describe_instance_types", "InstanceTypes", Filters=filters)
