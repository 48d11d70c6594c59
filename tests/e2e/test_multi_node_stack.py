"""The multi-node stack on a local cloud: apply, re-plan clean, destroy."""

import json
from contextlib import closing

import pytest

from batchmark.core.clusters.multi_node import parse_multi_node
from laptop.aws import AwsClients
from laptop.stack import STACKS
from tests.e2e.remains import remains
from tests.e2e.stacks import open_stack
from tests.terraform.plans import destroy_unchanged, planned_changes

NAME = "multi_node"
AIRFLOW = "batchmark-airflow"


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    """What the stack is told by a core stack that stands for it, and what became of it."""
    with open_stack(tmp_path_factory.mktemp("multi_node")) as stack:
        stack.start_cloud()
        with closing(AwsClients(stack)) as aws:
            subnet, role = stand_for_the_core_stack(aws)
            given = {
                "var_file": STACKS / NAME / "local.tfvars",
                "variables": {"airflow_role_arns": [role]},
            }
            stack.keep_provider()
            terraform = stack.terraform_of(NAME)
            before = remains(stack)
            terraform.init()
            terraform.apply(**given)
            told = parse_multi_node(value(aws, "/airflow/variables/batchmark_multi_node"))
            # As a run does while its file system is there.
            stood_up(aws, told.file_system.id_parameter, "fs-0123456789abcdef0")
            found = {
                "told": told,
                "subnet": subnet,
                "changes": planned_changes(terraform, **given),
                "file_system": value(aws, told.file_system.id_parameter),
                "described": described(aws, told),
            }
            destroy_unchanged(terraform, **given)
            yield found | {"before": before, "after": remains(stack)}


def stand_for_the_core_stack(aws):
    """A private subnet behind a NAT gateway, the image's repository, what Airflow is told."""
    ec2, ssm = aws.client("ec2"), aws.client("ssm")
    vpc_id = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    public, private = (
        named_subnet(ec2, vpc_id, f"batchmark-{kind}-us-east-1a", cidr)
        for kind, cidr in (("public", "10.7.0.0/20"), ("private", "10.7.16.0/20"))
    )
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=public, AllocationId=address)["NatGateway"]
    table = ec2.create_route_table(VpcId=vpc_id)["RouteTable"]["RouteTableId"]
    ec2.create_route(
        RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat["NatGatewayId"]
    )
    ec2.associate_route_table(RouteTableId=table, SubnetId=private)
    aws.client("ecr").create_repository(repositoryName="batchmark-job")
    core = {
        "schema_version": 1,
        "name": "batchmark",
        "bucket": "results",
        "log_group": "/aws/batch/batchmark",
        "events_log_group": "/aws/events/batch/batchmark",
    }
    ssm.put_parameter(Name="/airflow/variables/batchmark", Value=json.dumps(core), Type="String")
    role = aws.client("iam").create_role(RoleName=AIRFLOW, AssumeRolePolicyDocument="{}")
    return private, role["Role"]["Arn"]


def named_subnet(ec2, vpc_id, name, cidr):
    tags = [{"Key": "Name", "Value": name}, {"Key": "Project", "Value": "batchmark"}]
    subnet = ec2.create_subnet(
        VpcId=vpc_id,
        CidrBlock=cidr,
        AvailabilityZone="us-east-1a",
        TagSpecifications=[{"ResourceType": "subnet", "Tags": tags}],
    )
    return subnet["Subnet"]["SubnetId"]


def value(aws, parameter):
    return aws.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]


def stood_up(aws, parameter, file_system_id):
    aws.client("ssm").put_parameter(Name=parameter, Value=file_system_id, Overwrite=True)


def described(aws, told):
    batch, ec2 = aws.client("batch"), aws.client("ec2")
    (environment,) = batch.describe_compute_environments()["computeEnvironments"]
    (queue,) = batch.describe_job_queues(jobQueues=[told.job_queue])["jobQueues"]
    (definition,) = batch.describe_job_definitions(jobDefinitions=[told.job_definition])[
        "jobDefinitions"
    ]
    return {
        "environment": environment,
        "queue": queue,
        "definition": definition,
        "placement_groups": [
            (group["GroupName"], group["Strategy"])
            for group in ec2.describe_placement_groups()["PlacementGroups"]
        ],
        "rules": ec2.describe_security_group_rules(
            Filters=[{"Name": "group-id", "Values": [told.file_system.security_group]}]
        )["SecurityGroupRules"],
    }


@pytest.mark.timeout(600)
def test_it_applies_replans_clean_and_destroys(life):
    assert life["changes"] == {}
    assert life["after"] == life["before"]


def test_a_plan_leaves_the_id_of_the_file_system_alone(life):
    assert life["file_system"] == "fs-0123456789abcdef0"


def test_what_was_made_is_what_airflow_is_told(life):
    told, made = life["told"], life["described"]
    assert told.compute_environment == made["environment"]["computeEnvironmentName"]
    assert (told.device, told.most_nodes, told.gpus) == ("cpu", 2, 0)
    assert told.file_system.subnet == life["subnet"]
    (order,) = made["queue"]["computeEnvironmentOrder"]
    assert order["computeEnvironment"] == made["environment"]["computeEnvironmentArn"]


def test_nodes_lie_in_one_subnet_close_to_each_other(life):
    resources = life["described"]["environment"]["computeResources"]
    assert life["described"]["placement_groups"] == [("batchmark-multi-node", "cluster")]
    assert resources["placementGroup"] == "batchmark-multi-node"
    assert (resources["type"], resources["subnets"]) == ("EC2", [life["subnet"]])
    assert (resources["minvCpus"], resources["maxvCpus"]) == (0, 16)


def test_a_job_may_ask_for_any_number_of_nodes(life):
    (nodes,) = life["described"]["definition"]["nodeProperties"]["nodeRangeProperties"]
    assert nodes["targetNodes"] == "0:"
    asked = {need["type"]: need["value"] for need in nodes["container"]["resourceRequirements"]}
    assert asked == {"VCPU": "1", "MEMORY": "1536"}


def test_the_file_system_is_reached_by_lustre_alone(life):
    ports = {
        (rule["IsEgress"], rule["IpProtocol"], rule["FromPort"], rule["ToPort"])
        for rule in life["described"]["rules"]
        if "ReferencedGroupInfo" in rule
    }
    assert ports == {(out, "tcp", *ends) for out in (0, 1) for ends in ((988, 988), (1018, 1023))}
