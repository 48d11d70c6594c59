"""Checks compute environment requests as AWS does, before anything is changed.

Names, states and types are not checked, because Terraform's provider does that itself; neither are
instance types, which our Terraform modules look up.
"""

from __future__ import annotations

from typing import Any

from moto.batch.exceptions import ClientException
from moto.batch.models import BatchBackend
from moto.ec2.exceptions import InvalidSubnetIdError
from moto.iam.exceptions import NotFoundException

ON_INSTANCES = ("instanceTypes", "instanceRole", "minvCpus", "maxvCpus", "subnets")
ON_FARGATE = ("maxvCpus", "subnets", "securityGroupIds")


def role_arn(backend: BatchBackend, role: str) -> str:
    """Return a service role's ARN, or raise ClientException if the role does not exist."""
    try:
        return str(backend.iam_backend.get_role_by_arn(role).arn)
    except NotFoundException:
        raise ClientException(f"Service role {role} does not exist") from None


def check_resources(backend: BatchBackend, resources: dict[str, Any]) -> None:
    """Raise ClientException if a field of these computeResources is missing or invalid."""
    kind = str(resources.get("type"))
    required = ON_FARGATE if kind.startswith("FARGATE") else ON_INSTANCES
    missing = [field for field in required if resources.get(field) in (None, "", [])]
    if not resources.get("launchTemplate") and not resources.get("securityGroupIds"):
        missing.append("securityGroupIds")
    if missing:
        raise ClientException(f"computeResources.{missing[0]} must be provided for type {kind}")
    least, most = int(resources.get("minvCpus") or 0), int(resources["maxvCpus"])
    if not 0 <= least <= most:
        raise ClientException(f"minvCpus must be between 0 and maxvCpus ({most}), not {least}")
    check_references(backend, resources)


def check_references(backend: BatchBackend, resources: dict[str, Any]) -> None:
    """Raise ClientException if the instance profile, a security group or a subnet doesn't exist."""
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
