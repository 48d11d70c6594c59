import pytest
from botocore.exceptions import ClientError

from local_cloud.gaps import placement_groups
from tests.stand_ins.moto_account import moto_account, moto_client


@pytest.fixture
def ec2():
    placement_groups.fill()
    with moto_account():
        yield moto_client("ec2", region_name="us-east-1")


def create(ec2, name="ours", **given):
    tags = [{"Key": "Project", "Value": name}]
    specification = [{"ResourceType": "placement-group", "Tags": tags}]
    made = ec2.create_placement_group(GroupName=name, TagSpecifications=specification, **given)
    return made["PlacementGroup"]


def names(ec2, **asked):
    found = ec2.describe_placement_groups(**asked)["PlacementGroups"]
    return [group["GroupName"] for group in found]


def test_groups_are_found_as_they_were_made_by_id_name_and_tag(ec2):
    made = create(ec2, "first", Strategy="spread")
    assert made["Strategy"] == "spread"
    assert made["GroupArn"].endswith(":placement-group/first")
    assert made["Tags"] == [{"Key": "Project", "Value": "first"}]
    assert ec2.describe_placement_groups(GroupIds=[made["GroupId"]])["PlacementGroups"] == [made]
    create(ec2, "second")
    assert names(ec2) == ["first", "second"]
    assert names(ec2, GroupNames=["second"]) == ["second"]
    assert names(ec2, Filters=[{"Name": "tag:Project", "Values": ["first"]}]) == ["first"]
    ec2.delete_placement_group(GroupName="first")
    assert names(ec2) == ["second"]


@pytest.mark.parametrize(
    ("call", "given", "code"),
    [
        ("create_placement_group", {"GroupName": "ours"}, "InvalidPlacementGroup.Duplicate"),
        ("delete_placement_group", {"GroupName": "theirs"}, "InvalidPlacementGroup.Unknown"),
        ("describe_placement_groups", {"GroupNames": ["theirs"]}, "InvalidPlacementGroup.Unknown"),
        ("describe_placement_groups", {"GroupIds": ["pg-1"]}, "InvalidPlacementGroup.Unknown"),
    ],
)
def test_what_ec2_refuses(ec2, call, given, code):
    create(ec2)
    with pytest.raises(ClientError) as refused:
        getattr(ec2, call)(**given)
    assert refused.value.response["Error"]["Code"] == code
