"""Represents a compute environment's instances as a single container instance.

The instance registers with its cluster when the environment's first job starts, and stays
registered.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moto.batch.models import ComputeEnvironment
from moto.ec2.exceptions import InvalidSubnetIdError
from moto.ec2.models.instance_types import INSTANCE_TYPES

from local_cloud.batch.ecs.tasks import Placed, moment
from local_cloud.batch.jobs.resources import Requirements

# Batch's bundles of families, each with its first family.
BUNDLES = {"optimal": "m4", "default_x86_64": "m6i", "default_arm64": "m6g"}


@dataclass(frozen=True)
class Instance:
    """A container instance and all containers that it has ever run, oldest first."""

    arn: str
    containers: Sequence[Placed]

    @property
    def environment(self) -> ComputeEnvironment:
        return self.containers[0].environment

    @property
    def ec2_id(self) -> str:
        return f"i-{uuid.uuid5(uuid.NAMESPACE_URL, self.arn).hex[:17]}"

    @property
    def resources(self) -> dict[str, Any]:
        return self.environment.compute_resources

    @property
    def type(self) -> str | None:
        """The instance type, or None if the environment doesn't specify one, as on Fargate."""
        needed = self.containers[0].job.submission.requirements
        return instance_type(self.resources.get("instanceTypes") or [], needed)

    @property
    def image_id(self) -> str | None:
        """The environment's AMI, or None if Batch chooses one."""
        configured = self.resources.get("ec2Configuration") or [{}]
        image: str | None = configured[0].get("imageIdOverride") or self.resources.get("imageId")
        return image

    @property
    def registered_at(self) -> int | None:
        """When the instance started (epoch milliseconds); None if an older release started it."""
        return self.containers[0].attempt.created_at

    def zone(self, ec2: Any) -> str:
        """Return the first subnet's availability zone, or the region's first if that is unknown."""
        region = str(self.environment.ecs_arn).split(":")[3]
        try:
            return str(ec2.get_subnet(self.resources["subnets"][0]).availability_zone)
        except (InvalidSubnetIdError, LookupError):
            return f"{region}a"


def new_arn(cluster_arn: str) -> str:
    """Return the ARN of a cluster's only instance, which is always the same for a given cluster."""
    name = uuid.uuid5(uuid.NAMESPACE_URL, cluster_arn).hex
    return f"{cluster_arn.replace(':cluster/', ':container-instance/')}/{name}"


def instances(placed: Sequence[Placed]) -> list[Instance]:
    by_arn: dict[str, list[Placed]] = {}
    for each in placed:
        by_arn.setdefault(each.record.container_instance_arn, []).append(each)
    return [Instance(arn, containers) for arn, containers in by_arn.items()]


def instance_type(named: Sequence[str], needed: Requirements) -> str | None:
    """Return the smallest type among the given types, families and bundles that fits a job.

    If none fits, return the smallest of all; if no type is known, the first name, or None.
    """
    prefixes = tuple(f"{BUNDLES.get(name, name)}." for name in named)
    found = [name for name in INSTANCE_TYPES if name in named or name.startswith(prefixes)]
    found.sort(key=lambda name: (not needed.within(size_of(name)), size_of(name).vcpus, name))
    return next(iter(found), named[0] if named else None)


def size_of(instance_type: str) -> Requirements:
    facts = INSTANCE_TYPES[instance_type]
    gpus = sum(int(gpu["Count"]) for gpu in (facts.get("GpuInfo") or {}).get("Gpus") or [])
    vcpus, memory = facts["VCpuInfo"]["DefaultVCpus"], facts["MemoryInfo"]["SizeInMiB"]
    return Requirements(float(vcpus), int(memory), gpus)


def container_instance(instance: Instance, ec2: Any) -> dict[str, Any]:
    """Describe a container instance as DescribeContainerInstances does."""
    statuses = [each.status for each in instance.containers]
    attributes = {
        "ecs.ami-id": instance.image_id,
        "ecs.availability-zone": instance.zone(ec2),
        "ecs.instance-type": instance.type,
        "ecs.os-type": "linux",
    }
    return {
        "containerInstanceArn": instance.arn,
        "ec2InstanceId": instance.ec2_id,
        "status": "ACTIVE",
        "agentConnected": True,
        "runningTasksCount": statuses.count("RUNNING"),
        "pendingTasksCount": statuses.count("PENDING"),
        "attributes": {name: value for name, value in attributes.items() if value is not None},
        "registeredAt": moment(instance.registered_at),
    }


def ec2_instance(instance: Instance, ec2: Any) -> dict[str, Any]:
    """Describe an instance as DescribeInstances does; moto leaves out fields that are None."""
    resources = instance.resources
    tags = resources.get("tags") or {}
    return {
        "InstanceId": instance.ec2_id,
        "InstanceType": instance.type,
        "ImageId": instance.image_id,
        "LaunchTime": moment(instance.registered_at),
        "State": {"Code": 16, "Name": "running"},
        "Placement": {"AvailabilityZone": instance.zone(ec2), "Tenancy": "default"},
        "InstanceLifecycle": "spot" if resources.get("type") == "SPOT" else None,
        "SubnetId": next(iter(resources.get("subnets") or []), None),
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }
