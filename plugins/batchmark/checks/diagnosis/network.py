"""Checks whether instances can reach ECS and the registry from their subnets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from batchmark.aws.boto_clients import all_pages
from batchmark.checks.diagnosis.records import Finding
from batchmark.checks.diagnosis.subject import (
    Described,
    Subject,
    in_each_environment,
    name_of,
    resources_of,
)

EVERYWHERE = ("0.0.0.0/0", "::/0")
WAYS_OUT = (
    "GatewayId",
    "NatGatewayId",
    "TransitGatewayId",
    "NetworkInterfaceId",
    "InstanceId",
    "VpcPeeringConnectionId",
    "EgressOnlyInternetGatewayId",
    "CarrierGatewayId",
    "LocalGatewayId",
    "CoreNetworkArn",
)
# What an instance without a default route has to reach: ECS Developer Guide, "Amazon ECS interface
# VPC endpoints"; ECR User Guide for the image.
ENDPOINTS = ("ecs", "ecs-agent", "ecs-telemetry", "ecr.api", "ecr.dkr", "logs", "s3")


@in_each_environment
def subnets_without_route(subject: Subject, environment: Described) -> Finding | None:
    ec2 = subject.client("ec2")
    ids = resources_of(environment).get("subnets") or []
    subnets = ec2.describe_subnets(SubnetIds=ids)["Subnets"] if ids else []
    problems = [text for subnet in subnets if (text := _problem(ec2, subnet))]
    if not problems:
        return None
    text = f"Subnets of {name_of(environment)}: {'; '.join(problems)}."
    # Other subnets may work, and only an instance that fails to join proves anything.
    return Finding.of("subnet_without_route", text, certain=False)


def _problem(ec2: Any, subnet: Described) -> str | None:
    name, vpc = subnet["SubnetId"], subnet["VpcId"]
    route = _default_route(_route_table(ec2, name, vpc))
    if route is None:
        missing = _missing_endpoints(ec2, vpc)
        if not missing:
            return None
        return f"{name} has no default route, and {vpc} has no endpoints for {', '.join(missing)}"
    if route.get("State") == "blackhole":
        return f"{name} has a default route to a deleted target (blackhole)"
    gateway = str(route.get("GatewayId", ""))
    if gateway.startswith("igw-") and not subnet.get("MapPublicIpOnLaunch"):
        return f"{name} routes to {gateway}, but its instances get no public IP address"
    return None


def _route_table(ec2: Any, subnet_id: str, vpc_id: str) -> Described:
    """Return the subnet's own route table, or its VPC's main one if it has none."""
    main: Described = {}
    for table in _of_vpc(ec2, vpc_id, "describe_route_tables", "RouteTables"):
        for association in table.get("Associations", ()):
            if association.get("SubnetId") == subnet_id:
                return dict(table)
            if association.get("Main"):
                main = table
    return main


def _default_route(table: Described) -> Described | None:
    for route in table.get("Routes", ()):
        destination = route.get("DestinationCidrBlock", route.get("DestinationIpv6CidrBlock"))
        if destination in EVERYWHERE and any(route.get(way) for way in WAYS_OUT):
            return dict(route)
    return None


def _missing_endpoints(ec2: Any, vpc_id: str) -> list[str]:
    endpoints = _of_vpc(ec2, vpc_id, "describe_vpc_endpoints", "VpcEndpoints")
    services = [endpoint["ServiceName"] for endpoint in endpoints]
    return [
        name for name in ENDPOINTS if not any(service.endswith(f".{name}") for service in services)
    ]


def _of_vpc(ec2: Any, vpc_id: str, operation: str, field: str) -> Iterator[Described]:
    return all_pages(ec2, operation, field, Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])
