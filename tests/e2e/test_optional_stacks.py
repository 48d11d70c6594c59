"""Each optional stack on a local cloud: apply, re-plan clean, destroy."""

import json
from contextlib import closing

import pytest

from batchmark.core.clusters.cluster import parse_cluster
from batchmark.core.clusters.multi_node import parse_multi_node
from laptop.aws import AwsClients
from laptop.stack import STACKS, init_one_at_a_time
from tests.builders.manifests import rendered
from tests.e2e.deployer import needed, recorded, refused, unused
from tests.e2e.remains import remains
from tests.e2e.stacks import open_stack
from tests.terraform.plans import destroy_unchanged, planned_changes

EKS, NODES, JOBS = "eks_gpu_sharing", "multi_node", "job_comparison"
# The policies that a deployer needs for each, beside those of the core stack.
POLICIES = {EKS: ["eks"], NODES: [NODES], JOBS: []}
SUBNETS = {"public": "10.7.0.0/20", "private": "10.7.16.0/20"}


def stand_for_the_core_stack(aws, subnets, **told):
    """The ids of a network and of its subnets, and Airflow's role.

    Args:
        subnets: zone and addresses by name.
        told: what else Airflow is told of the core stack.
    """
    ec2 = aws.client("ec2")
    vpc_id = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    subnet_ids = []
    for name, (zone, cidr) in subnets.items():
        tags = [{"Key": "Name", "Value": name}, {"Key": "Project", "Value": "batchmark"}]
        made = ec2.create_subnet(
            VpcId=vpc_id,
            CidrBlock=cidr,
            AvailabilityZone=zone,
            TagSpecifications=[{"ResourceType": "subnet", "Tags": tags}],
        )
        subnet_ids.append(made["Subnet"]["SubnetId"])
    aws.client("ecr").create_repository(repositoryName="batchmark-job")
    core = {"schema_version": 1, "name": "batchmark", "bucket": "results"} | told
    aws.client("ssm").put_parameter(
        Name="/airflow/variables/batchmark", Value=json.dumps(core), Type="String"
    )
    role = aws.client("iam").create_role(
        RoleName="batchmark-airflow", AssumeRolePolicyDocument="{}"
    )
    return vpc_id, subnet_ids, role["Role"]["Arn"]


def value(aws, parameter):
    return aws.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]


def inputs_of_eks(aws):
    zones = {"us-east-1a": "10.7.0.0/20", "us-east-1b": "10.7.16.0/20"}
    subnets = {f"batchmark-public-{zone}": (zone, cidr) for zone, cidr in zones.items()}
    vpc_id, _, role = stand_for_the_core_stack(aws, subnets)
    group = aws.client("ec2").create_security_group(
        GroupName="airflow", Description="a", VpcId=vpc_id
    )
    return {
        "variables": {
            "local_cloud": True,
            "airflow_role_arns": [role],
            "airflow_security_group_ids": [group["GroupId"]],
            "api_cidrs": ["203.0.113.0/24"],
        }
    }


def look_at_eks(aws, outputs):
    eks = aws.client("eks")
    (cluster,) = eks.list_clusters()["clusters"]
    return {
        "outputs": outputs,
        "parameter": value(aws, "/airflow/variables/batchmark_eks"),
        "cluster": eks.describe_cluster(name=cluster)["cluster"],
        "nodes": eks.describe_nodegroup(clusterName=cluster, nodegroupName="gpu")["nodegroup"],
    }


def inputs_of_nodes(aws):
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
        "var_file": STACKS / NODES / "local.tfvars",
        "variables": {"airflow_role_arns": [role]},
    }


def look_at_nodes(aws, _):
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


# Of each stack: what makes all that it needs there and returns its inputs, and what looks at it.
MADE = {
    EKS: (inputs_of_eks, look_at_eks),
    NODES: (inputs_of_nodes, look_at_nodes),
    JOBS: (lambda _: {"var_file": STACKS / JOBS / "local.tfvars"}, lambda *_: {}),
}


@pytest.fixture(scope="module")
def life(request, tmp_path_factory):
    """Of a stack that was applied, planned again and destroyed: what was found."""
    name = request.param
    inputs_of, look = MADE[name]
    with open_stack(tmp_path_factory.mktemp(name)) as stack:
        stack.start_cloud()
        with closing(AwsClients(stack.aws)) as aws:
            inputs = inputs_of(aws)
            stack.keep_provider()
            terraform = stack.terraform_of(name)
            before = remains(stack)
            init_one_at_a_time(terraform)
            terraform.apply(**inputs)
            found = look(aws, terraform.outputs())
            changes = planned_changes(terraform, **inputs)
            destroy_unchanged(terraform, **inputs)
            left = aws.client("eks").list_clusters()["clusters"]
        return found | {
            "name": name,
            "changes": changes,
            "before": before,
            "after": remains(stack),
            "clusters": left,
            "calls": recorded(stack.calls),
        }


@pytest.mark.timeout(600)
@pytest.mark.parametrize("life", MADE, indirect=True)
def test_it_applies_replans_clean_and_destroys(life):
    assert life["changes"] == {}
    assert life["clusters"] == []
    assert life["after"] == life["before"]


@pytest.mark.parametrize("life", MADE, indirect=True)
def test_a_deployer_may_apply_it_and_no_more(life):
    policies = POLICIES[life["name"]]
    assert refused(life["calls"], *policies) == set()
    assert unused(needed(life["calls"])[1], *policies) == set()


@pytest.mark.parametrize("life", [EKS], indirect=True)
def test_the_cluster_that_was_made_is_what_airflow_is_told(life):
    told = parse_cluster(life["parameter"])
    cluster, nodes = life["cluster"], life["nodes"]
    assert (told.cluster, told.node_group) == (cluster["name"], nodes["nodegroupName"])
    assert (told.gpus, told.instance_type) == (4, nodes["instanceTypes"][0])
    assert cluster["accessConfig"]["authenticationMode"] == "API"
    assert nodes["scalingConfig"] == {"minSize": 0, "desiredSize": 0, "maxSize": 1}
    assert life["outputs"]["pods_at_once"] == {"exclusive": 4, "time_slicing": 40}
    assert life["outputs"]["manifests"] == rendered()


@pytest.mark.parametrize("life", [NODES], indirect=True)
def test_the_queue_that_was_made_is_what_airflow_is_told(life):
    told = life["told"]
    assert told.compute_environment == life["environment"]["computeEnvironmentName"]
    assert (told.device, told.most_nodes, told.gpus) == ("cpu", 2, 0)
    assert told.file_system.subnet == life["subnet"]
    (order,) = life["queue"]["computeEnvironmentOrder"]
    assert order["computeEnvironment"] == life["environment"]["computeEnvironmentArn"]
