"""Checks a file system's subnet, and whether its security groups allow Lustre traffic."""

from __future__ import annotations

from typing import Any

from moto.ec2.exceptions import InvalidSubnetIdError
from moto.ec2.models import ec2_backends

from local_cloud.file_systems.requests import RefusedError

LUSTRE_PORT = 988  # FSx's; clients also need 1018 to 1023, which aren't checked


def vpc_of(request: dict[str, Any], account: str, region: str) -> str:
    """Return a CreateFileSystem request's VPC, or raise FSx's error for an invalid network."""
    (subnet,), ec2 = request["SubnetIds"], ec2_backends[account][region]
    try:
        vpc_id = str(ec2.get_subnet(subnet).vpc_id)
    except InvalidSubnetIdError:
        raise bad_network(
            f"The subnet ID {subnet} does not exist", InvalidSubnetId=subnet
        ) from None
    named = request.get("SecurityGroupIds") or []
    groups = [security_group(ec2, group_id, vpc_id) for group_id in named]
    if not named:
        groups = [ec2.get_security_group_by_name_or_id("default", vpc_id)]
    if not any(map(lets_lustre_in, groups)):
        raise bad_network(
            "The file system cannot be created because the security groups "
            f"{', '.join(group.id for group in groups)} do not permit Lustre LNET network "
            f"traffic on port {LUSTRE_PORT}",
        )
    return vpc_id


def bad_network(message: str, **fields: str) -> RefusedError:
    return RefusedError("InvalidNetworkSettings", message, **fields)


def security_group(ec2: Any, group_id: str, vpc_id: str) -> Any:
    found = ec2.get_security_group_from_id(group_id)
    if found is None or found.vpc_id != vpc_id:
        why = "does not exist" if found is None else f"is not in the subnet's VPC {vpc_id}"
        raise bad_network(
            f"The security group ID {group_id} {why}", InvalidSecurityGroupId=group_id
        )
    return found


def lets_lustre_in(group: Any) -> bool:
    """Return whether a group allows Lustre traffic. Default groups do, though moto adds no rule."""
    return group.is_default or any(map(permits_lustre, group.ingress_rules))


def permits_lustre(rule: Any) -> bool:
    if str(rule.ip_protocol) == "-1":
        return True
    ports = range(int(rule.from_port or 0), int(rule.to_port or 0) + 1)
    return str(rule.ip_protocol) in ("tcp", "6") and LUSTRE_PORT in ports
