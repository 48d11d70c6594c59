"""What is left of a check, by name and by tag; what AWS makes by itself or keeps for nothing."""

import time
from types import SimpleNamespace
from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from laptop.aws_check.step import StepError
from laptop.aws_check.steps import clean_up, made_by_aws
from laptop.aws_check.steps.made_by_aws import only_listed, remove_guards, remove_late_logs
from laptop.aws_check.steps.parts import PARTS
from laptop.errors import TerraformError
from tests.e2e.deployer import statements
from tests.e2e.privileges import Need, allows
from tests.unit.laptop.aws_check.conftest import told_by

REGION = "us-east-1"
ARN = f"arn:aws:{{}}:{REGION}:123456789012:{{}}"


class Listed:
    """Clients that list what a test says, by operation, and nothing else."""

    def __init__(self, **found):
        self._found = found
        self.asked = []

    def __call__(self, service):
        return SimpleNamespace(can_paginate=lambda _: True, get_paginator=self._paginator)

    def _paginator(self, operation):
        def paginate(**asked):
            self.asked.append((operation, asked))
            return [self._found.get(operation, {})]

        return SimpleNamespace(paginate=paginate)


def tagged(*arns):
    return {"ResourceTagMappingList": [{"ResourceARN": arn} for arn in arns]}


def test_what_is_of_others_or_deleted_is_not_left():
    gone = {"computeEnvironmentName": "batchmark-check-c5-2xlarge", "status": "DELETED"}
    listed = Listed(
        list_buckets={"Buckets": [{"Name": "others"}]},
        list_policies={"Policies": [{"PolicyName": "deployer-of-batchmark-check-compute"}]},
        list_roles={"Roles": [{"RoleName": "batchmark-airflow"}]},
        describe_compute_environments={"computeEnvironments": [gone]},
    )
    assert clean_up.leftovers(listed) == []
    gone["status"] = "DELETING"
    assert clean_up.leftovers(listed) == ["batch batchmark-check-c5-2xlarge"]


@pytest.mark.parametrize(
    ("operation", "listed", "told"),
    [
        ("list_buckets", {"Buckets": [{"Name": "batchmark-check-1"}]}, "s3 batchmark-check-1"),
        (
            "get_databases",
            {"DatabaseList": [{"Name": "batchmark_check"}]},
            "glue batchmark_check",
        ),
        ("list_queues", {"QueueUrls": ["//1/batchmark-check-in"]}, "sqs //1/batchmark-check-in"),
        (
            "describe_instances",
            {"Reservations": [{"Instances": [{"InstanceId": "i-1"}]}]},
            "instance i-1",
        ),
        ("list_clusters", {"clusters": ["batchmark-check-1"]}, "eks batchmark-check-1"),
        (
            "describe_placement_groups",
            {"PlacementGroups": [{"GroupName": "batchmark-check-1"}]},
            "ec2 batchmark-check-1",
        ),
        ("get_resources", tagged(ARN.format("kms", "key/1")), ARN.format("kms", "key/1")),
    ],
)
def test_what_is_left_is_named(operation, listed, told):
    assert clean_up.leftovers(Listed(**{operation: listed})) == [told]


@pytest.mark.parametrize("kind", clean_up.WITHOUT_NAMES)
def test_what_has_no_name_is_asked_for_by_tag(kind):
    operation, field, name = clean_up.WITHOUT_NAMES[kind]
    listed = Listed(**{operation: {field: [{name: "x-1"}]}})
    assert clean_up.leftovers(listed) == [f"{kind} x-1"]
    asked = {"Filters": [{"Name": "tag:Project", "Values": ["batchmark-check"]}]}
    assert (operation, asked) in listed.asked


def test_what_aws_keeps_and_does_not_bill_is_not_left():
    kept = tagged(
        ARN.format("batch", "job-definition/batchmark-check-c5-2xlarge:1"),
        ARN.format("ecs", "task-definition/batchmark-check:1"),
        ARN.format("ecs", "cluster/AWSBatch-batchmark-check"),
        ARN.format("ecs", "task/AWSBatch-batchmark-check/1"),
        ARN.format("ec2", "instance/i-1"),
        ARN.format("ec2", "volume/vol-1"),
    )
    listed = Listed(get_resources=kept)
    assert clean_up.leftovers(listed) == []
    (filters,) = [asked["Filters"] for name, asked in listed.asked if name == "describe_instances"]
    assert "terminated" not in filters[1]["Values"]


CORE, NODES, EKS = "core", "multi_node", "eks_gpu_sharing"


@pytest.mark.parametrize(
    ("applied", "failing", "destroyed"),
    [
        ((NODES, EKS), None, [EKS, NODES, CORE]),
        ((NODES, EKS), EKS, [EKS, EKS, NODES]),
        ((NODES, EKS), NODES, [EKS, NODES, NODES]),
        ((NODES, EKS), CORE, [EKS, NODES, CORE, CORE]),
        ((NODES,), None, [NODES, CORE]),  # killed before the other one had a state
        ((), None, [CORE]),
        ((), "late", [CORE, CORE]),  # AWS lets go of it at the second try
    ],
)
def test_stacks_are_destroyed_before_the_core_one_which_waits_for_them(
    check_of, monkeypatch, tmp_path, applied, failing, destroyed
):
    tried, guards = [], Mock()

    def terraform_of(name):
        def with_inputs(command, **_):
            assert command == "destroy"
            tried.append(name)
            if name == failing or (failing == "late" and len(tried) == 1):
                raise TerraformError(f"DependencyViolation in {name}")

        return SimpleNamespace(state=tmp_path / name, with_inputs=with_inputs)

    for name in applied:
        (tmp_path / name).touch()
    monkeypatch.setattr(clean_up, "remove_guards", guards)
    for name in ("init_one_at_a_time", "remove_inbox", "end_jobs"):
        monkeypatch.setattr(clean_up, name, lambda _: None)
    check = check_of(parts=PARTS.values())
    check.__dict__.update(terraform_of=terraform_of, terraform=terraform_of(CORE))
    went_well, told = told_by(clean_up.destroy, check)
    assert went_well is (failing in (None, "late"))
    go_on = f"continue with `make aws-check DESTROY=yes`. DependencyViolation in {failing}"
    assert went_well or go_on in told
    assert tried == destroyed
    retries = len(tried) - len(set(tried))
    assert guards.call_count == 1 + retries  # before all, and before each second try


def test_what_is_left_is_told_and_a_listing_without_an_answer_is_asked_again(check_of, monkeypatch):
    error = ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow"}}, "List")
    queue = ARN.format("batch", "job-queue/batchmark-check-c5-2xlarge")
    leftovers = Mock(side_effect=[error, [], error, ["s3 a", "sqs b"], [queue]])
    monkeypatch.setattr(clean_up, "remove_late_logs", lambda _: None)
    monkeypatch.setattr(clean_up, "leftovers", leftovers)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert "no resource has the tag" in clean_up.nothing_left(check_of()).text
    for told in (
        r"left: can't be listed: .*ThrottlingException",
        "continue with `make aws-check DESTROY=yes`; left: s3 a, sqs b",
    ):
        with pytest.raises(StepError, match=told):
            clean_up.nothing_left(check_of(on_aws=False))
    assert clean_up.nothing_left(check_of(on_aws=False)).text == (
        f"deleted according to their services, but still listed by tag: {queue}"
    )


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


def test_guardduty_leaves_nothing_in_our_network_or_what_may_not_be_deleted_is_told(
    check, aws, monkeypatch
):
    check, said = check
    ec2 = aws("ec2")
    ours, others = guarded(ec2, "batchmark-check"), guarded(ec2, "others")
    by_hand = ec2.create_security_group(GroupName="mine", Description="mine")["GroupId"]
    remove_guards(check)
    assert there(ec2) == {*others, by_hand}
    assert all(found in said[0] for found in ours)
    remove_guards(check)
    assert len(said) == 1
    endpoint, group = guarded(ec2, "batchmark-check")
    error = ClientError({"Error": {"Code": "UnauthorizedOperation", "Message": "no"}}, "Delete")
    monkeypatch.setattr(ec2, "delete_vpc_endpoints", Mock(side_effect=error))
    remove_guards(check)
    assert there(ec2) == {*others, by_hand, endpoint, group}
    assert f"GuardDuty's {endpoint}, {group} may block" in said[1]
    assert "UnauthorizedOperation" in said[1]


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


GONE = (
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
)
MAY_BE_THERE = (
    "batch batchmark-check-c5-2xlarge",  # by name: it is there
    "network vpc-1",
    ARN.format("kms", "key/1"),  # no listing has it
    "address eipalloc-1",
    ARN.format("fsx", "file-system/fs-1"),
    ARN.format("sns", "others-name"),  # is not found by name
)


def test_only_what_its_own_service_no_longer_has_is_only_listed():
    assert [found for found in GONE if not only_listed([found])] == []
    assert [found for found in MAY_BE_THERE if only_listed([found])] == []
    assert not any(only_listed([GONE[0], found]) for found in MAY_BE_THERE)


def test_each_kind_that_is_excused_is_of_a_service_that_is_asked():
    kinds = made_by_aws.ASKED_BY_NAME.pattern.split("|:")
    services = {kind.strip(":").split(":")[0] for kind in kinds}
    assert services <= set(clean_up.LISTINGS)
