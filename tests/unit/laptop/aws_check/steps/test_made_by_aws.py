"""What AWS makes by itself and would keep, and what its tagging API lists for long."""

from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from laptop.aws_check.steps import clean_up, made_by_aws
from laptop.aws_check.steps.made_by_aws import only_listed, remove_guards, remove_late_logs
from tests.e2e.deployer import statements
from tests.e2e.privileges import Need, allows

REGION = "us-east-1"
ARN = f"arn:aws:{{}}:{REGION}:123456789012:{{}}"
CLUSTERS = "/aws/ecs/containerinsights"
KEPT_GROUPS = (
    f"{CLUSTERS}/AWSBatch-batchmark-c5/performance",
    f"{CLUSTERS}/others-batchmark-check/performance",
    "/aws/batch/job",
)
LATE_GROUPS = (
    f"{CLUSTERS}/AWSBatch-batchmark-check-c5-2xlarge-spot-1/performance",
    f"{CLUSTERS}/batchmark-check-c5-2xlarge-spot-1_Batch_2/performance",
    "/aws/eks/batchmark-check-gpu-sharing/cluster",
)


@pytest.fixture
def aws(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with mock_aws():
        made = {}
        yield lambda service: made.setdefault(service, boto3.client(service, REGION))


def tags(kind, **values):
    found = [{"Key": key, "Value": value} for key, value in values.items()]
    return [{"ResourceType": kind, "Tags": found}]


def guarded(ec2, project):
    """A network with what GuardDuty makes in it."""
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tags("vpc", Project=project))
    vpc_id = vpc["Vpc"]["VpcId"]
    group = ec2.create_security_group(
        GroupName=f"GuardDutyManagedSecurityGroup-{vpc_id}",
        Description="GuardDuty",
        VpcId=vpc_id,
        TagSpecifications=tags("security-group", GuardDutyManaged="true"),
    )["GroupId"]
    endpoint = ec2.create_vpc_endpoint(
        VpcId=vpc_id,
        VpcEndpointType="Interface",
        ServiceName=f"com.amazonaws.{REGION}.guardduty-data",
        SecurityGroupIds=[group],
        TagSpecifications=tags("vpc-endpoint", GuardDutyManaged="true"),
    )["VpcEndpoint"]["VpcEndpointId"]
    return endpoint, group


def there(ec2):
    endpoints = ec2.describe_vpc_endpoints()["VpcEndpoints"]
    groups = ec2.describe_security_groups()["SecurityGroups"]
    alive = {each["VpcEndpointId"] for each in endpoints if each["State"] != "deleted"}
    return alive | {each["GroupId"] for each in groups if each["GroupName"] != "default"}


@pytest.fixture
def check(check_of, aws):
    made = check_of(on_aws=False)
    said = []
    object.__setattr__(made, "clients", aws)
    object.__setattr__(made, "say", said.append)
    return made, said


def test_guardduty_leaves_nothing_in_our_network(check, aws):
    check, said = check
    ec2 = aws("ec2")
    ours, others = guarded(ec2, "batchmark-check"), guarded(ec2, "others")
    by_hand = ec2.create_security_group(GroupName="mine", Description="mine")["GroupId"]
    remove_guards(check)
    assert there(ec2) == {*others, by_hand}
    assert all(found in said[0] for found in ours)
    remove_guards(check)
    assert len(said) == 1


def test_what_of_guardduty_may_not_be_deleted_is_told(check, aws, monkeypatch):
    check, said = check
    ec2 = aws("ec2")
    endpoint, group = guarded(ec2, "batchmark-check")
    error = ClientError({"Error": {"Code": "UnauthorizedOperation", "Message": "no"}}, "Delete")
    monkeypatch.setattr(ec2, "delete_vpc_endpoints", Mock(side_effect=error))
    remove_guards(check)
    assert there(ec2) == {endpoint, group}
    assert f"GuardDuty's {endpoint}, {group} may block" in said[0]
    assert "UnauthorizedOperation" in said[0]


def test_log_groups_that_aws_makes_for_our_clusters_are_deleted(aws):
    logs = aws("logs")
    for name in (*LATE_GROUPS, *KEPT_GROUPS):
        logs.create_log_group(logGroupName=name)
    remove_late_logs(aws)
    left = {group["logGroupName"] for group in logs.describe_log_groups()["logGroups"]}
    assert left == set(KEPT_GROUPS)
    policy = statements("aws_check", name="batchmark-check")
    for name in LATE_GROUPS:  # the deployer may delete them
        assert allows(policy, Need("logs:DeleteLogGroup", ARN.format("logs", f"log-group:{name}")))


@pytest.mark.parametrize(
    "found",
    [
        ARN.format("batch", "job-queue/batchmark-check-c5-2xlarge"),
        ARN.format("sns", "batchmark-check-alerts"),
        ARN.format("athena", "workgroup/batchmark_check"),
        ARN.format("ec2", "launch-template/lt-1"),
        ARN.format("ec2", "elastic-ip/eipalloc-1"),
        ARN.format("ec2", "internet-gateway/igw-1"),
        "arn:aws:iam::123456789012:policy/batchmark-check-airflow-run",
        "arn:aws:iam::123456789012:instance-profile/batchmark-check-1",
        ARN.format("ec2", "natgateway/nat-1"),
        ARN.format("ec2", "placement-group/batchmark-check-multi-node"),
        ARN.format("ec2", "subnet/subnet-1"),
        ARN.format("eks", "nodegroup/batchmark-check-gpu-sharing/gpu/1"),
        ARN.format("ec2", "vpc/vpc-1"),
        "arn:aws:s3:::batchmark-check-results-1",
    ],
)
def test_what_its_own_service_no_longer_has_is_only_listed(found):
    assert only_listed([found])


@pytest.mark.parametrize(
    "found",
    [
        "batch batchmark-check-c5-2xlarge",  # by name: it is there
        "network vpc-1",
        ARN.format("kms", "key/1"),  # no listing has it
        "address eipalloc-1",
        ARN.format("fsx", "file-system/fs-1"),
        ARN.format("sns", "others-name"),  # is not found by name
    ],
)
def test_what_may_be_there_is_not_only_listed(found):
    assert not only_listed([found])
    assert not only_listed([ARN.format("sns", "batchmark-check-alerts"), found])


def test_each_kind_that_is_excused_is_of_a_service_that_is_asked():
    kinds = made_by_aws.ASKED_BY_NAME.pattern.split("|:")
    services = {kind.strip(":").split(":")[0] for kind in kinds}
    assert services <= set(clean_up.LISTINGS)
