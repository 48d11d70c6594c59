"""What Terraform reads back after it has created something."""

import base64
import json

import httpx
import pytest
from botocore.exceptions import ClientError


def test_a_launch_template_keeps_its_own_tags_apart_and_shows_those_of_later(cloud):
    ec2 = cloud.client("ec2")
    user_data = base64.b64encode(b"MIME-Version: 1.0\n").decode()
    instance_tags = [{"Key": "Name", "Value": "instance"}]
    own_tags = [{"Key": "Name", "Value": "template"}]
    template = ec2.create_launch_template(
        LaunchTemplateName=cloud.name("template"),
        LaunchTemplateData={
            "UserData": user_data,
            "TagSpecifications": [{"ResourceType": "instance", "Tags": instance_tags}],
        },
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": own_tags}],
    )["LaunchTemplate"]
    assert template["Tags"] == own_tags
    template_id = template["LaunchTemplateId"]
    described = ec2.describe_launch_template_versions(LaunchTemplateId=template_id)
    data = described["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    assert data["UserData"] == user_data
    assert data["TagSpecifications"] == [{"ResourceType": "instance", "Tags": instance_tags}]
    ec2.create_tags(Resources=[template_id], Tags=[{"Key": "Team", "Value": "x"}])
    (found,) = ec2.describe_launch_templates(LaunchTemplateIds=[template_id])["LaunchTemplates"]
    assert found["Tags"] == [*own_tags, {"Key": "Team", "Value": "x"}]


@pytest.fixture
def bucket(cloud):
    s3, name = cloud.client("s3"), cloud.name("bucket")
    s3.create_bucket(Bucket=name)
    return name


def deny(bucket, **fields):
    return {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
        **fields,
    }


def test_tls_only_policy_lets_local_http_through(cloud, bucket):
    s3 = cloud.client("s3")
    statement = deny(bucket, Condition={"Bool": {"aws:SecureTransport": "false"}})
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    s3.put_bucket_policy(Bucket=bucket, Policy=policy)
    s3.put_object(Bucket=bucket, Key="key", Body=b"body")
    assert s3.get_object(Bucket=bucket, Key="key")["Body"].read() == b"body"
    # The policy itself is kept as it was sent.
    assert json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"]) == json.loads(policy)


def test_a_denial_that_applies_still_denies(cloud, bucket):
    s3 = cloud.client("s3")
    policy = {"Version": "2012-10-17", "Statement": [deny(bucket)]}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    with pytest.raises(ClientError) as denied:
        s3.put_object(Bucket=bucket, Key="key", Body=b"body")
    assert denied.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


@pytest.fixture
def first_statuses(cloud):
    """Makes IAM's client send each call twice; the statuses of the first answers."""
    statuses = []

    def send_once_before(request, **_):
        sent = httpx.request(
            request.method, request.url, headers=dict(request.headers), content=request.body
        )
        statuses.append(sent.status_code)

    events = cloud.client("iam").meta.events
    events.register("before-send.iam", send_once_before)
    yield statuses
    events.unregister("before-send.iam", send_once_before)


def test_a_retried_call_takes_effect_once(cloud, first_statuses):
    iam = cloud.client("iam")
    allow = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
    created = iam.create_policy(PolicyName=cloud.name("policy"), PolicyDocument=document)
    arn = created["Policy"]["Arn"]
    iam.create_policy_version(PolicyArn=arn, PolicyDocument=document, SetAsDefault=True)
    iam.delete_policy_version(PolicyArn=arn, VersionId="v1")
    (left,) = iam.list_policy_versions(PolicyArn=arn)["Versions"]
    assert left["VersionId"] == "v2"
    assert first_statuses == 4 * [200]
    for version, error in (("v3", "NoSuchEntity"), ("v2", "DeleteConflict")):
        with pytest.raises(ClientError, match=error):
            iam.delete_policy_version(PolicyArn=arn, VersionId=version)
    assert first_statuses[4:] == [404, 409]


def test_aws_public_parameters_are_read_and_not_listed(cloud):
    ssm = cloud.client("ssm")
    name = "/aws/service/ecs/optimized-ami/amazon-linux-2023/gpu/recommended"
    recommended = json.loads(ssm.get_parameter(Name=name)["Parameter"]["Value"])
    image_id = ssm.get_parameter(Name=f"{name}/image_id")["Parameter"]["Value"]
    assert recommended["image_id"] == image_id
    own = cloud.name("parameter")
    ssm.put_parameter(Name=own, Value="a", Type="String")
    names = {
        parameter["Name"]
        for page in ssm.get_paginator("describe_parameters").paginate()
        for parameter in page["Parameters"]
    }
    assert own in names
    assert not {name for name in names if name.startswith("/aws/")}
