"""Routes of the subnets."""

import pytest

from tests.stand_ins.diagnosis_answers import INTERNET, only, route_table


def endpoints(*names):
    found = [{"ServiceName": f"com.amazonaws.us-east-1.{name}"} for name in names]
    return {"DescribeVpcEndpoints": {"VpcEndpoints": found}}


ALL_ENDPOINTS = ("ecs", "ecs-agent", "ecs-telemetry", "ecr.api", "ecr.dkr", "logs", "s3")


def tables(*found):
    return {"DescribeRouteTables": {"RouteTables": list(found)}}


PRIVATE = {"DescribeSubnets": {"Subnets": [{"SubnetId": "subnet-1", "VpcId": "vpc-1"}]}}
NAT = {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-1", "State": "active"}


@pytest.mark.parametrize(
    ("answers", "evidence"),
    [
        (tables(route_table()), "subnet-1 has no default route, and vpc-1 has no endpoints for"),
        (tables(route_table()) | endpoints(*ALL_ENDPOINTS[:-1]), "vpc-1 has no endpoints for s3."),
        (tables(route_table(NAT | {"State": "blackhole"})), "default route to a deleted target"),
        (PRIVATE, "routes to igw-1, but its instances get no public IP address"),
        (tables(route_table(INTERNET), route_table(subnet="subnet-1")), "no default route"),
    ],
    ids=["no way", "an endpoint missing", "blackhole", "no address", "own table before the main"],
)
def test_a_subnet_without_a_way_out(find, answers, evidence):
    only(find(answers), "subnet_without_route", evidence, certain=False)


@pytest.mark.parametrize(
    "answers",
    [
        tables(route_table(NAT)) | PRIVATE,
        tables(route_table()) | endpoints(*ALL_ENDPOINTS),
        tables(route_table(), route_table(INTERNET, subnet="subnet-1")),
    ],
    ids=["NAT", "endpoints", "own table before the main"],
)
def test_a_subnet_with_a_way_out(find, answers):
    assert find(answers).findings == ()
