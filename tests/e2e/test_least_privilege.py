"""Least privilege: what Airflow and the jobs really called against what their policies allow."""

from __future__ import annotations

import json

import pytest

from batchmark.aws.result_bucket import REPORT_JSON
from laptop.demo import run_benchmark
from laptop.session import Clock
from tests.e2e.privileges import (
    CREATES_OBJECT,
    Need,
    actions,
    airflow_statements,
    allows,
    needs,
    with_the_resources_tags,
)
from tests.e2e.stacks import run_dag

pytestmark = pytest.mark.timeout(2400)

PRINCIPALS = ("airflow", "job")

# What is allowed though a run may not call it.
NOT_ALWAYS_CALLED = {
    "airflow": {
        "batch:TerminateJob": "only when a job overruns or leaks, or a user ends its task",
        "ec2:DescribeCapacityReservations": "only where a target has a reservation",
        "ec2:TerminateInstances": "only when an instance leaks, and end_leaks allows it",
        "ecr:DescribeRepositories": "only when an image was not scanned",
        "fsx:DeleteFileSystem": "only when a file system leaks, and end_leaks allows it",
        "inspector2:ListFindings": "only where Inspector scans images; ECR calls it",
        "s3:DeleteObject": "only when a run was cleared and ended in another month",
        "sns:Publish": "only when there is something to alert about",
    },
    "job": {},
}

# What else a diagnosis may ask, by what it finds.
NOT_ALWAYS_CALLED["airflow"] |= dict.fromkeys(
    (
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:DescribeScalingActivities",
        "cloudwatch:GetMetricStatistics",
        "ec2:DescribeRouteTables",
        "ec2:DescribeSubnets",
        "ec2:DescribeVpcEndpoints",
        "ecs:DescribeContainerInstances",
        "ecs:ListContainerInstances",
    ),
    "only where a job waits",
)

# Tests make Airflow run jobs that are not ours: their definitions, their log group.
OF_OTHER_TESTS = (
    ":job-definition/nap-",
    ":log-group:/aws/batch/job:",
)


@pytest.fixture(scope="module")
def calls(stack, airflow, calibration, own_runs):
    """Each principal's calls, of a calibration, a benchmark, own jobs, and the DAGs that watch.

    What the tests before have run is not run again: it is known by what it writes.
    """

    def read():
        lines = [json.loads(line) for line in stack.calls.read_text().splitlines()]
        return {
            principal: [line for line in lines if line["access_key_id"] == principal]
            for principal in PRINCIPALS
        }

    if not any(REPORT_JSON in arn for call in read()["airflow"] for arn in call["resources"]):
        run_benchmark(stack, {"suite": "smoke"}, Clock())
    writes = {
        "leak_guard": "guard",
        "diagnose_queue": "diagnoses",
        "detector_self_test": "self_test",
    }
    for dag_id, folder in writes.items():
        if not any(f"/{folder}/" in arn for call in read()["airflow"] for arn in call["resources"]):
            run_dag(airflow, dag_id, {})
    return read()


@pytest.fixture(scope="module")
def needed(calls, aws):
    return {
        principal: {
            need
            for call in calls[principal]
            for need in needs(with_the_resources_tags(call, aws))
            if not any(part in arn for arn in call["resources"] for part in OF_OTHER_TESTS)
        }
        for principal in PRINCIPALS
    }


@pytest.fixture(scope="module")
def policies(stack, aws):
    """Each principal's statements, as IAM has them."""
    iam = aws.client("iam")
    definitions = aws.client("batch").describe_job_definitions(status="ACTIVE")["jobDefinitions"]
    roles = {
        definition["containerProperties"]["jobRoleArn"].rpartition("/")[2]
        for definition in definitions
        if definition["containerProperties"].get("jobRoleArn")
    }
    inline = []
    for role in roles:
        assert iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"] == []
        names = iam.list_role_policies(RoleName=role)["PolicyNames"]
        assert bool(names) == ("-no-rights-" not in role)
        inline += [
            iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"] for name in names
        ]
    return {
        "airflow": airflow_statements(stack, aws),
        "job": [statement for policy in inline for statement in policy["Statement"]],
    }


@pytest.mark.parametrize("principal", PRINCIPALS)
def test_every_call_is_understood_and_allowed_and_nothing_that_was_not_called(
    calls, needed, policies, principal
):
    assert calls[principal]
    assert [call for call in calls[principal] if call["operation"] is None] == []
    assert {need for need in needed[principal] if not allows(policies[principal], need)} == set()
    allowed = {action for statement in policies[principal] for action in actions(statement)}
    called = {need.action for need in needed[principal]}
    assert allowed - called - set(NOT_ALWAYS_CALLED[principal]) == set()
    assert not any("*" in action for action in allowed)


def test_the_calls_hold_what_each_dag_writes(needed):
    written = {need.resource for need in needed["airflow"] if need.action == "s3:PutObject"}
    folders = {resource.partition(":::")[2].split("/")[1] for resource in written}
    assert folders - {"alerts"} == {  # that only where something changed
        *("costs", "diagnoses", "guard", "history", "noise", "prices", "raw", "runs", "self_test")
    }


def test_airflow_may_stop_the_jobs_it_submits_and_no_others(calls, policies):
    submitted = [call for call in calls["airflow"] if call["operation"] == "SubmitJob"]
    assert submitted
    job = "arn:aws:batch:us-east-1:123456789012:job/0123"

    def may_stop(tags):
        return allows(policies["airflow"], Need("batch:TerminateJob", job, tuple(tags.items())))

    for call in submitted:
        tags = {
            key.replace("RequestTag", "ResourceTag"): tuple(values)
            for key, values in call["conditions"].items()
            if key.startswith("aws:RequestTag/")
        }
        assert may_stop(tags)
        assert not may_stop(dict.fromkeys(tags, ("another-installation",)))
    assert not may_stop({})


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("ec2:TerminateInstances", "arn:aws:ec2:us-east-1:123456789012:instance/i-0123"),
        ("fsx:DeleteFileSystem", "arn:aws:fsx:us-east-1:123456789012:file-system/fs-0123"),
    ],
)
def test_airflow_may_end_only_what_has_the_installations_tag(policies, action, resource):
    def may_end(tags):
        return allows(policies["airflow"], Need(action, resource, tuple(tags.items())))

    assert may_end({"aws:ResourceTag/batchmark:installation": ("batchmark",)})
    assert not may_end({"aws:ResourceTag/batchmark:installation": ("another-installation",)})
    assert not may_end({"aws:ResourceTag/Project": ("batchmark",)})
    assert not may_end({})


@pytest.mark.parametrize(
    "beyond",
    [
        Need("batch:SubmitJob", "arn:aws:batch:us-east-1:123456789012:job-queue/others"),
        Need("s3:PutObject", "arn:aws:s3:::batchmark-results-123456789012-us-east-1/raw/a.json"),
        Need("s3:GetObject", "arn:aws:s3:::another-bucket/raw/a.json"),
        Need("ssm:GetParameter", "arn:aws:ssm:us-east-1:123456789012:parameter/others"),
        Need("iam:PassRole", "arn:aws:iam::123456789012:role/any"),
    ],
)
def test_what_airflow_never_does_is_refused(policies, beyond):
    assert not allows(policies["airflow"], beyond)


def test_airflow_writes_raw_results_of_own_jobs_only(policies):
    raw = "arn:aws:s3:::batchmark-results-123456789012-us-east-1/raw/run/g4dn.xlarge"
    own = Need("s3:PutObject", f"{raw}/job-thumbnails-size-64/0a1b-1.json")
    assert allows(policies["airflow"], own)
    assert not allows(policies["airflow"], Need("s3:PutObject", f"{raw}/smoke/job.json"))


ONCE = (("s3:if-none-match", ("*",)), (CREATES_OBJECT, ("true",)))
AGAIN = ((CREATES_OBJECT, ("true",)),)
IN_PARTS = ((CREATES_OBJECT, ("false",)),)


@pytest.mark.parametrize(
    ("action", "key", "conditions", "may"),
    [
        ("s3:PutObject", "raw/run/c5.2xlarge/smoke/1/0a1b.1.json", ONCE, True),
        ("s3:PutObject", "raw/run/c5.2xlarge/smoke/1/0a1b.1.json", IN_PARTS, True),
        ("s3:PutObject", "raw/run/c5.2xlarge/smoke/1/0a1b.1.json", AGAIN, False),
        ("s3:PutObject", "raw/run/c5.2xlarge/job-thumbnails/1/0a1b.1.json", ONCE, False),
        ("s3:PutObject", "raw/run/another/smoke/1/0a1b.1.json", ONCE, False),
        ("s3:PutObject", "raw/run/a.json", ONCE, False),
        ("s3:PutObject", "runs/run/c5.2xlarge/report.json", ONCE, False),
        ("s3:GetObject", "raw/run/c5.2xlarge/smoke/1/0a1b.1.json", (), False),
        ("s3:DeleteObject", "raw/run/c5.2xlarge/smoke/1/0a1b.1.json", (), False),
    ],
)
def test_a_job_writes_raw_results_of_its_own_target_once(policies, action, key, conditions, may):
    bucket = "arn:aws:s3:::batchmark-results-123456789012-us-east-1"
    assert allows(policies["job"], Need(action, f"{bucket}/{key}", conditions)) == may
