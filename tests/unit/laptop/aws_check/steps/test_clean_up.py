"""What is left of a check, by name and by tag; and what AWS keeps for nothing."""

import time
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from laptop.aws_check.step import StepError
from laptop.aws_check.steps import clean_up
from laptop.aws_check.steps.parts import PARTS
from laptop.errors import TerraformError
from tests.unit.laptop.aws_check.conftest import told_by

ARN = "arn:aws:{}:us-east-1:123456789012:{}"


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
