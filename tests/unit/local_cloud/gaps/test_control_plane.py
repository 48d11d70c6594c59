"""What Terraform reads back after it has created something."""

import json

import pytest
from botocore.exceptions import ClientError
from moto.iam.models import IAMBackend

from local_cloud.gaps import ec2 as ec2_gap
from local_cloud.gaps import iam, placement_groups, s3, service_quotas, ssm
from local_cloud.gaps.s3 import applying, holds
from tests.stand_ins.moto_account import moto_account, moto_client

NAME = "/aws/service/ecs/optimized-ami/amazon-linux-2023/gpu/recommended"


@pytest.fixture(scope="module")
def client():
    ec2_gap.separate_tags()
    ec2_gap.show_changed_tags()
    for module in (placement_groups, s3, service_quotas, ssm):
        module.fill()
    with moto_account():
        yield lambda service: moto_client(service, region_name="us-east-1")


def test_a_launch_template_keeps_its_own_tags_apart_and_shows_those_of_later(client):
    of_instances = [{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "instance"}]}]
    own_tags = [{"Key": "Name", "Value": "template"}]
    template = client("ec2").create_launch_template(
        LaunchTemplateName="template",
        LaunchTemplateData={"UserData": "TUlNRQ==", "TagSpecifications": of_instances},
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": own_tags}],
    )["LaunchTemplate"]
    assert template["Tags"] == own_tags
    named = template["LaunchTemplateId"]
    described = client("ec2").describe_launch_template_versions(LaunchTemplateId=named)
    data = described["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    assert data == {"UserData": "TUlNRQ==", "TagSpecifications": of_instances}
    plain = {"LaunchTemplateName": "plain", "LaunchTemplateData": {"UserData": "TUlNRQ=="}}
    assert client("ec2").create_launch_template(**plain)["LaunchTemplate"].get("Tags", []) == []
    client("ec2").create_tags(Resources=[named], Tags=[{"Key": "Team", "Value": "x"}])
    listed = client("ec2").describe_launch_templates(LaunchTemplateIds=[named])
    (found,) = listed["LaunchTemplates"]
    assert found["Tags"] == [*own_tags, {"Key": "Team", "Value": "x"}]


def test_a_policy_for_tls_alone_lets_local_http_through_and_any_other_denial_denies(client):
    bucket = client("s3")
    bucket.create_bucket(Bucket="bucket")
    objects = "arn:aws:s3:::bucket/*"
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": objects}
    for condition in ({"Condition": {"Bool": {"aws:SecureTransport": "false"}}}, {}):
        policy = json.dumps({"Version": "2012-10-17", "Statement": [deny | condition]})
        bucket.put_bucket_policy(Bucket="bucket", Policy=policy)
        assert bucket.get_bucket_policy(Bucket="bucket")["Policy"] == policy
        if condition:
            bucket.put_object(Bucket="bucket", Key="key", Body=b"body")
    with pytest.raises(ClientError, match="Forbidden"):
        bucket.put_object(Bucket="bucket", Key="key", Body=b"body")


def test_awss_public_parameters_are_read_and_not_listed(client):
    parameters = client("ssm")
    recommended = json.loads(parameters.get_parameter(Name=NAME)["Parameter"]["Value"])
    image_id = parameters.get_parameter(Name=f"{NAME}/image_id")["Parameter"]["Value"]
    assert recommended["image_id"] == image_id
    parameters.put_parameter(Name="own", Value="a", Type="String")
    listed = parameters.describe_parameters()["Parameters"]
    assert [parameter["Name"] for parameter in listed] == ["own"]


def test_the_quotas_that_are_listed_are_those_that_can_be_asked_for(client):
    quotas = client("service-quotas")
    listed = quotas.list_service_quotas(ServiceCode="ec2")["Quotas"]
    assert "Running On-Demand G and VT instances" in {quota["QuotaName"] for quota in listed}
    for quota in listed:
        asked = quotas.get_service_quota(ServiceCode="ec2", QuotaCode=quota["QuotaCode"])
        assert asked["Quota"] == quota
    with pytest.raises(ClientError, match="NoSuchResource"):
        quotas.list_service_quotas(ServiceCode="none")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({}, True),
        ({"Bool": {"aws:SecureTransport": "false"}}, False),
        ({"Bool": {"aws:SecureTransport": ["false"]}}, False),
        ({"Bool": {"aws:SecureTransport": "true"}}, True),
        ({"BoolIfExists": {"AWS:securetransport": "true"}}, True),
        ({"NumericLessThan": {"s3:TlsVersion": "1.2"}}, False),
        ({"NumericGreaterThanEquals": {"s3:TlsVersion": 1.2}}, False),
        ({"NumericLessThan": {"s3:TlsVersion": 1.4}}, True),
        ({"StringEquals": {"aws:PrincipalOrgID": "o-1"}}, False),
        ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, False),
        (
            {"Bool": {"aws:SecureTransport": "true"}, "NumericLessThan": {"s3:TlsVersion": "1.2"}},
            False,
        ),
    ],
)
def test_conditions(condition, expected):
    assert holds(condition) is expected


def test_statements_that_apply_come_without_their_conditions():
    always = {"Effect": "Allow", "Action": "s3:*"}
    when_secure = {"Effect": "Deny", "Condition": {"Bool": {"aws:SecureTransport": "true"}}}
    when_plain = {"Effect": "Deny", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}
    assert applying([always, when_secure, when_plain]) == [always, {"Effect": "Deny"}]


def test_awss_own_policies_are_read_for_the_partition_that_is_served_alone(monkeypatch):
    monkeypatch.setenv("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
    monkeypatch.setattr(IAMBackend, "_init_aws_policies", iam.policies_of_aws)
    served, other = (IAMBackend(partition, "123456789012") for partition in ("aws", "aws-cn"))
    assert "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess" in served.managed_policies
    assert other.managed_policies == {}


@pytest.fixture
def ec2(client):
    yield client("ec2")
    for name in names(client("ec2")):
        client("ec2").delete_placement_group(GroupName=name)


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
