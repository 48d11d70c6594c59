"""The multi-node stack on a local cloud: apply, re-plan clean, destroy."""

import pytest

from batchmark.core.clusters.multi_node import parse_multi_node
from laptop.stack import STACKS
from tests.e2e.deployer import needed, refused, unused
from tests.e2e.optional_stacks import life_of, stand_for_the_core_stack, value

NAME = "multi_node"
SUBNETS = {"public": "10.7.0.0/20", "private": "10.7.16.0/20"}


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    """What the stack is told by a core stack that stands for it, and what became of it."""
    with life_of(NAME, tmp_path_factory.mktemp(NAME), inputs_of, look) as found:
        yield found


def inputs_of(aws):
    """Of a private subnet behind a NAT gateway."""
    ec2 = aws.client("ec2")
    vpc_id, (public, private), role = stand_for_the_core_stack(
        aws,
        {f"batchmark-{kind}-us-east-1a": ("us-east-1a", cidr) for kind, cidr in SUBNETS.items()},
        topic_arn="arn:aws:sns:us-east-1:123456789012:batchmark-alerts",
        log_group="/aws/batch/batchmark",
        events_log_group="/aws/events/batch/batchmark",
    )
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=public, AllocationId=address)["NatGateway"]
    table = ec2.create_route_table(VpcId=vpc_id)["RouteTable"]["RouteTableId"]
    ec2.create_route(
        RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat["NatGatewayId"]
    )
    ec2.associate_route_table(RouteTableId=table, SubnetId=private)
    return {
        "var_file": STACKS / NAME / "local.tfvars",
        "variables": {"airflow_role_arns": [role]},
    }


def look(aws, _):
    batch = aws.client("batch")
    told = parse_multi_node(value(aws, "/airflow/variables/batchmark_multi_node"))
    # As a run does while its file system is there: a plan leaves its id alone.
    parameter = told.file_system.id_parameter
    aws.client("ssm").put_parameter(Name=parameter, Value="fs-0123456789abcdef0", Overwrite=True)
    subnets = aws.client("ec2").describe_subnets(
        Filters=[{"Name": "tag:Name", "Values": ["batchmark-private-us-east-1a"]}]
    )["Subnets"]
    (environment,) = batch.describe_compute_environments()["computeEnvironments"]
    (queue,) = batch.describe_job_queues(jobQueues=[told.job_queue])["jobQueues"]
    return {
        "told": told,
        "subnet": subnets[0]["SubnetId"],
        "environment": environment,
        "queue": queue,
    }


@pytest.mark.timeout(600)
def test_it_applies_replans_clean_and_destroys(life):
    assert life["changes"] == {}
    assert life["after"] == life["before"]


def test_what_was_made_is_what_airflow_is_told(life):
    told = life["told"]
    assert told.compute_environment == life["environment"]["computeEnvironmentName"]
    assert (told.device, told.most_nodes, told.gpus) == ("cpu", 2, 0)
    assert told.file_system.subnet == life["subnet"]
    (order,) = life["queue"]["computeEnvironmentOrder"]
    assert order["computeEnvironment"] == life["environment"]["computeEnvironmentArn"]


def test_a_deployer_may_apply_it_and_no_more(life):
    assert refused(life["calls"], NAME) == set()
    assert unused(needed(life["calls"])[1], NAME) == set()
