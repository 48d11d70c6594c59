"""The EKS stack on a local cloud: apply, re-plan clean, destroy."""

import json
from contextlib import closing

import pytest

from batchmark.core.clusters.cluster import parse_cluster
from laptop.aws import AwsClients
from tests.builders.manifests import rendered
from tests.e2e.remains import remains
from tests.e2e.stacks import open_stack
from tests.terraform.plans import destroy_unchanged, planned_changes

NAME = "eks_gpu_sharing"
AIRFLOW = "batchmark-airflow"


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    """What the stack is told by a core stack that stands for it, and what became of it."""
    with open_stack(tmp_path_factory.mktemp("eks")) as stack:
        stack.start_cloud()
        with closing(AwsClients(stack)) as aws:
            given = {"variables": stand_for_the_core_stack(aws)}
            stack.keep_provider()
            terraform = stack.terraform_of(NAME)
            before = remains(stack)
            terraform.init()
            terraform.apply(**given)
            found = {
                "outputs": terraform.outputs(),
                "changes": planned_changes(terraform, **given),
                "described": described(aws),
                "parameter": aws.client("ssm").get_parameter(
                    Name="/airflow/variables/batchmark_eks"
                )["Parameter"]["Value"],
            }
            destroy_unchanged(terraform, **given)
            clusters = aws.client("eks").list_clusters()["clusters"]
            yield found | {"left": clusters, "before": before, "after": remains(stack)}


def stand_for_the_core_stack(aws):
    ec2, ssm = aws.client("ec2"), aws.client("ssm")
    vpc_id = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    for zone, cidr in (("us-east-1a", "10.7.0.0/20"), ("us-east-1b", "10.7.16.0/20")):
        tags = [("Name", f"batchmark-public-{zone}"), ("Project", "batchmark")]
        listed = [{"Key": key, "Value": value} for key, value in tags]
        ec2.create_subnet(
            VpcId=vpc_id,
            CidrBlock=cidr,
            AvailabilityZone=zone,
            TagSpecifications=[{"ResourceType": "subnet", "Tags": listed}],
        )
    aws.client("ecr").create_repository(repositoryName="batchmark-job")
    core = {"schema_version": 1, "name": "batchmark", "bucket": "results"}
    ssm.put_parameter(Name="/airflow/variables/batchmark", Value=json.dumps(core), Type="String")
    role = aws.client("iam").create_role(RoleName=AIRFLOW, AssumeRolePolicyDocument="{}")
    group = ec2.create_security_group(GroupName="airflow", Description="a", VpcId=vpc_id)
    return {
        "local_cloud": True,
        "airflow_role_arns": [role["Role"]["Arn"]],
        "airflow_security_group_ids": [group["GroupId"]],
        "api_cidrs": ["203.0.113.0/24"],
    }


def described(aws):
    eks = aws.client("eks")
    (cluster,) = eks.list_clusters()["clusters"]
    return {
        "cluster": eks.describe_cluster(name=cluster)["cluster"],
        "nodes": eks.describe_nodegroup(clusterName=cluster, nodegroupName="gpu")["nodegroup"],
    }


@pytest.mark.timeout(600)
def test_it_applies_replans_clean_and_destroys(life):
    assert life["changes"] == {}
    assert life["left"] == []
    assert life["after"] == life["before"]


def test_what_was_made_is_what_airflow_is_told(life):
    told = parse_cluster(life["parameter"])
    cluster, nodes = life["described"]["cluster"], life["described"]["nodes"]
    assert (told.cluster, told.node_group) == (cluster["name"], nodes["nodegroupName"])
    assert (told.gpus, told.instance_type) == (4, nodes["instanceTypes"][0])
    assert cluster["accessConfig"]["authenticationMode"] == "API"
    assert nodes["scalingConfig"] == {"minSize": 0, "desiredSize": 0, "maxSize": 1}
    assert life["outputs"]["pods_at_once"] == {"exclusive": 4, "time_slicing": 40}


def test_the_manifests_are_those_that_are_tested(life):
    assert life["outputs"]["manifests"] == rendered()
