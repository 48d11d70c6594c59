"""Compute environments: what AWS refuses of a request, checked before anything is changed.

Names, states and types are not: Terraform's provider refuses those itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moto.batch.exceptions import ClientException
from moto.ec2.exceptions import InvalidSubnetIdError
from moto.ec2.models.instance_types import INSTANCE_FAMILIES, INSTANCE_TYPES
from moto.iam.exceptions import NotFoundException

if TYPE_CHECKING:
    from moto.batch.models import BatchBackend

ON_INSTANCES = ("instanceTypes", "instanceRole", "minvCpus", "maxvCpus", "subnets")
ON_FARGATE = ("maxvCpus", "subnets", "securityGroupIds")
BUNDLES = ("optimal", "default_x86_64", "default_arm64")
# Families that AWS has, and moto's list lacks.
OTHER_FAMILIES = ("dl1", "f1", "g2", "g3", "g3s", "g4ad", "p2", "p3")


def role_arn(backend: BatchBackend, role: str) -> str:
    """The ARN of a service role that is there."""
    try:
        return str(backend.iam_backend.get_role_by_arn(role).arn)
    except NotFoundException:
        raise ClientException(f"Service role {role} does not exist") from None


def check_resources(backend: BatchBackend, resources: dict[str, Any]) -> None:
    """Raise ClientException for computeResources that AWS refuses."""
    kind = str(resources.get("type"))
    required = ON_FARGATE if kind.startswith("FARGATE") else ON_INSTANCES
    missing = [field for field in required if resources.get(field) in (None, "", [])]
    if not resources.get("launchTemplate") and not resources.get("securityGroupIds"):
        missing.append("securityGroupIds")
    if missing:
        raise ClientException(f"computeResources.{missing[0]} must be provided for type {kind}")
    least, most = int(resources.get("minvCpus") or 0), int(resources["maxvCpus"])
    if not 0 <= least <= most:
        raise ClientException(f"minvCpus must be between 0 and maxvCpus {most}, not {least}")
    for instance_type in resources.get("instanceTypes") or []:
        if not is_known(instance_type):
            raise ClientException(f"Instance type {instance_type} does not exist")
    check_references(backend, resources)


def is_known(instance_type: str) -> bool:
    """Whether Batch takes it: an instance type, a family or one of Batch's bundles."""
    return (
        instance_type in (*BUNDLES, *INSTANCE_FAMILIES)
        or instance_type in INSTANCE_TYPES
        or instance_type.partition(".")[0] in OTHER_FAMILIES
    )


def check_references(backend: BatchBackend, resources: dict[str, Any]) -> None:
    """Raise ClientException if something that computeResources name is not there."""
    if role := resources.get("instanceRole"):
        profiles = backend.iam_backend.get_instance_profiles()
        if not any(role in (profile.arn, profile.name) for profile in profiles):
            raise ClientException(f"Instance profile {role} does not exist")
    for group in resources.get("securityGroupIds") or []:
        if backend.ec2_backend.get_security_group_from_id(group) is None:
            raise ClientException(f"Security group {group} does not exist")
    for subnet in resources["subnets"]:
        try:
            backend.ec2_backend.get_subnet(subnet)
        except InvalidSubnetIdError:
            raise ClientException(f"Subnet {subnet} does not exist") from None
