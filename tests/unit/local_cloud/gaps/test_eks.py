"""What the local cloud's EKS adds to moto's, and what it refuses as EKS does."""

import pytest
from botocore.exceptions import ClientError

from tests.stand_ins.eks_account import EksAccount
from tests.stand_ins.kubernetes_api.clients import CLUSTER, REGION
from tests.stand_ins.moto_account import moto_account, moto_client

NOBODY = "arn:aws:iam::123456789012:role/none"


@pytest.fixture(scope="module")
def account():
    with moto_account():
        yield EksAccount()


@pytest.fixture(scope="module")
def eks(account):
    return account.eks


def refused(call, **request):
    with pytest.raises(ClientError) as error:
        call(**request)
    return error.value.response["Error"]["Code"], str(error.value)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"version": "1.34"}, "version is '1.34'"),
        ({"roleArn": NOBODY}, "does not exist"),
        ({"resourcesVpcConfig": {"subnetIds": ["subnet-0"]}}, "'subnet-0' does not exist"),
        ({"scalingConfig": {"minSize": 0, "desiredSize": 2, "maxSize": 1}}, "greater than max"),
        ({"scalingConfig": {"minSize": 1, "desiredSize": 0, "maxSize": 1}}, "less than min size"),
        ({"nodeRole": NOBODY}, "does not exist"),
    ],
)
def test_a_cluster_or_a_node_group_that_eks_refuses(account, changes, problem):
    of_group = {"scalingConfig", "nodeRole"} & changes.keys()
    create = account.create_group if of_group else account.create_cluster
    code, message = refused(create, name="another", **changes)
    assert code == "InvalidParameterException"
    assert problem in message


def test_subnets_of_one_zone_are_refused(account):
    only = {"subnetIds": account.subnets[:1]}
    _, message = refused(account.create_cluster, name="another", resourcesVpcConfig=only)
    assert "at least two different AZs" in message


def test_a_cluster_says_who_may_in_and_has_a_security_group_as_long_as_it_is_there(account, eks):
    account.create_cluster("brief")
    cluster = eks.describe_cluster(name="brief")["cluster"]
    assert cluster["accessConfig"] == {
        "authenticationMode": "API",
        "bootstrapClusterCreatorAdminPermissions": True,
    }
    assert cluster["upgradePolicy"] == {"supportType": "EXTENDED"}
    network = cluster["resourcesVpcConfig"]
    ec2 = moto_client("ec2", region_name=REGION)
    named = {"GroupIds": [network["clusterSecurityGroupId"]]}
    (group,) = ec2.describe_security_groups(**named)["SecurityGroups"]
    assert group["VpcId"] == network["vpcId"]
    eks.delete_cluster(name="brief")
    assert refused(ec2.describe_security_groups, **named)[0] == "InvalidGroup.NotFound"


def test_a_node_group_grows_within_its_limits(account, eks):
    named = {"clusterName": CLUSTER, "nodegroupName": "gpu"}
    update = eks.update_nodegroup_config(**named, scalingConfig={"desiredSize": 1})["update"]
    assert eks.describe_update(name=CLUSTER, updateId=update["id"])["update"]["status"] == (
        "Successful"
    )
    _, message = refused(eks.update_nodegroup_config, **named, scalingConfig={"desiredSize": 2})
    assert "desired capacity 2 can't be greater than max size 1" in message
    assert account.group.scaling_config["desiredSize"] == 1


def test_a_node_group_has_tags(account, eks):
    arn = account.group.arn
    eks.tag_resource(resourceArn=arn, tags={"a": "1", "b": "2", "c": "3"})
    eks.untag_resource(resourceArn=arn, tagKeys=["a", "c"])
    assert eks.list_tags_for_resource(resourceArn=arn)["tags"] == {"b": "2"}
    assert "b" not in eks.describe_cluster(name=CLUSTER)["cluster"].get("tags", {})
    code, _ = refused(eks.tag_resource, resourceArn=f"{arn}0", tags={"a": "1"})
    assert code == "ResourceNotFoundException"


def test_addons_come_and_go(eks):
    named = {"clusterName": CLUSTER, "addonName": "vpc-cni"}
    assert eks.create_addon(**named)["addon"]["status"] == "ACTIVE"
    assert refused(eks.create_addon, **named)[0] == "ResourceInUseException"
    assert eks.describe_addon(**named)["addon"]["addonName"] == "vpc-cni"
    eks.delete_addon(**named)
    assert refused(eks.describe_addon, **named)[0] == "ResourceNotFoundException"
    unknown = named | {"addonName": "nvidia"}
    assert refused(eks.create_addon, **unknown)[0] == "InvalidParameterException"


def test_access_entries_are_for_roles_that_exist(account, eks):
    role = account.make_role("airflow")
    named = {"clusterName": CLUSTER, "principalArn": role}
    eks.create_access_entry(**named, kubernetesGroups=["batchmark-airflow"])
    entry = eks.describe_access_entry(**named)["accessEntry"]
    assert (entry["kubernetesGroups"], entry["type"]) == (["batchmark-airflow"], "STANDARD")
    assert refused(eks.create_access_entry, **named)[0] == "ResourceInUseException"
    missing = named | {"principalArn": f"{role}-none"}
    assert refused(eks.create_access_entry, **missing)[0] == "InvalidParameterException"
    eks.delete_access_entry(**named)
    assert refused(eks.describe_access_entry, **named)[0] == "ResourceNotFoundException"


def test_a_service_account_has_one_role(account, eks):
    request = {
        "clusterName": CLUSTER,
        "namespace": "gpu-demo",
        "serviceAccount": "benchmark",
        "roleArn": account.role,
    }
    made = eks.create_pod_identity_association(**request)["association"]
    assert refused(eks.create_pod_identity_association, **request)[0] == "ResourceInUseException"
    named = {"clusterName": CLUSTER, "associationId": made["associationId"]}
    other = account.make_role("other")
    eks.update_pod_identity_association(**named, roleArn=other)
    assert eks.describe_pod_identity_association(**named)["association"]["roleArn"] == other
    eks.delete_pod_identity_association(**named)
    assert refused(eks.describe_pod_identity_association, **named)[0] == (
        "ResourceNotFoundException"
    )
