"""What Terraform reads back after it has created something."""

import json

import pytest
from botocore.exceptions import ClientError

from local_cloud.gaps import ec2, s3, service_quotas, ssm
from tests.stand_ins.moto_account import moto_account, moto_client

NAME = "/aws/service/ecs/optimized-ami/amazon-linux-2023/gpu/recommended"


@pytest.fixture(scope="module")
def client():
    for gap in (ec2.separate_tags, ec2.show_changed_tags, s3.fill, service_quotas.fill, ssm.fill):
        gap()
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
