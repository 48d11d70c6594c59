"""The EKS stack on a local cloud: apply, re-plan clean, destroy."""

import pytest

from batchmark.core.clusters.cluster import parse_cluster
from tests.builders.manifests import rendered
from tests.e2e.deployer import needed, refused, unused
from tests.e2e.optional_stacks import life_of, stand_for_the_core_stack, value


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    """What the stack is told by a core stack that stands for it, and what became of it."""
    folder = tmp_path_factory.mktemp("eks")
    with life_of("eks_gpu_sharing", folder, inputs_of, look) as found:
        yield found | {"left": found["eks"].list_clusters()["clusters"]}


def inputs_of(aws):
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


def look(aws, outputs):
    eks = aws.client("eks")
    (cluster,) = eks.list_clusters()["clusters"]
    return {
        "eks": eks,
        "outputs": outputs,
        "parameter": value(aws, "/airflow/variables/batchmark_eks"),
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
    cluster, nodes = life["cluster"], life["nodes"]
    assert (told.cluster, told.node_group) == (cluster["name"], nodes["nodegroupName"])
    assert (told.gpus, told.instance_type) == (4, nodes["instanceTypes"][0])
    assert cluster["accessConfig"]["authenticationMode"] == "API"
    assert nodes["scalingConfig"] == {"minSize": 0, "desiredSize": 0, "maxSize": 1}
    assert life["outputs"]["pods_at_once"] == {"exclusive": 4, "time_slicing": 40}


def test_the_manifests_are_those_that_are_tested(life):
    assert life["outputs"]["manifests"] == rendered()


def test_a_deployer_may_apply_it_and_no_more(life):
    assert refused(life["calls"], "eks") == set()
    assert unused(needed(life["calls"])[1], "eks") == set()
