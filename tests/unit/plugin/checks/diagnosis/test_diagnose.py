"""The whole diagnosis: order, messages, and calls that AWS refuses."""

from typing import get_args

import pytest

from batchmark.checks.diagnosis.diagnose import QUESTIONS
from batchmark.checks.diagnosis.records import REMEDIES, Cause
from tests.builders.existing_jobs import definition
from tests.paths import DOCS
from tests.stand_ins.diagnosis_answers import (
    CREATED_AT,
    DEFINITION,
    ENVIRONMENT,
    EVENTS_GROUP,
    QUEUE,
    container,
    job,
    one_environment,
    only,
    quota,
    summary,
)

RUNBOOK = DOCS / "runbook.md"


def test_a_healthy_queue_leaves_capacity_as_the_likely_cause_for_its_oldest_job(find, aws):
    waiting = [summary("younger", created_at=CREATED_AT + 1), summary("waiting")]
    diagnosis = find({"ListJobs": {"jobSummaryList": waiting}})
    assert diagnosis.findings == ()
    assert diagnosis.job_id == "waiting"
    assert aws.asked("DescribeJobs") == [{"jobs": ["waiting"]}]
    assert len(diagnosis.checked) == len(QUESTIONS) + 3
    text = diagnosis.message()
    assert "No cause found for job waiting in queue batchmark-g5-xlarge." in text
    assert "EC2 has no free capacity, but that is not certain" in text
    assert "the vCPU service quota" in text, "says what was checked"


def test_an_idle_queue_is_diagnosed_for_the_next_job(find, aws):
    diagnosis = find({"ListJobs": {"jobSummaryList": []}}, job_definition=DEFINITION)
    assert "Found nothing that would keep a job" in diagnosis.message()
    aws.calls.clear()
    large = definition(containerProperties=container(memory=20000))
    there = {"DescribeJobDefinitions": {"jobDefinitions": [large]}}
    diagnosis = find(there, job_definition=DEFINITION)
    assert diagnosis.job_id is None
    only(diagnosis, "job_does_not_fit", certain=True)
    assert [asked["jobStatus"] for asked in aws.asked("ListJobs")] == ["RUNNABLE", "STARTING"]
    assert aws.asked("DescribeJobDefinitions") == [{"jobDefinitions": [DEFINITION]}]


OPERATIONS = [
    *("DescribeComputeEnvironments", "ListJobs", "FilterLogEvents", "DescribeInstanceTypes"),
    *("GetServiceQuota", "GetMetricStatistics", "DescribeAutoScalingGroups"),
    *("ListContainerInstances", "DescribeInstances", "DescribeSubnets", "DescribeRouteTables"),
    "DescribeImages",
]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("code", ["AccessDeniedException", "ThrottlingException"])
def test_a_refused_question_is_reported_and_the_rest_are_asked(ask, operation, code):
    diagnosis = ask({operation: code}, job=job(), events_log_group=EVENTS_GROUP)
    assert f": {code}: no" in diagnosis.unread[0]
    assert all(f": {code}: no" in text or text.endswith("are unknown") for text in diagnosis.unread)
    assert len(diagnosis.checked) + len(diagnosis.unread) == len(QUESTIONS) + 3
    assert f"but {len(diagnosis.unread)} question(s) could not be answered." in diagnosis.summary
    assert f"- not asked: {diagnosis.unread[0]}" in diagnosis.message()


def test_an_answer_of_another_shape_is_reported_and_without_the_queue_nothing_is_asked(ask, aws):
    diagnosis = ask({"DescribeInstanceTypes": {"InstanceTypes": [{"InstanceType": "g5.xlarge"}]}})
    assert "the size of the instance types: KeyError('VCpuInfo')" in diagnosis.unread
    aws.calls.clear()
    diagnosis = ask({"DescribeJobQueues": "AccessDeniedException"}, job=job())
    assert (len(diagnosis.unread), diagnosis.queue, len(aws.calls)) == (1, QUEUE, 1)


def test_certain_findings_come_first_with_their_remedies(find):
    changed = one_environment(state="DISABLED") | {"GetServiceQuota": {"Quota": quota(0)}}
    diagnosis = find(changed | {"DescribeImages": "ImageNotFoundException"})
    assert diagnosis.summary == (
        "Causes found for job waiting in queue batchmark-g5-xlarge: 2 certain "
        "(environment_disabled, service_quota), 1 suspected (image_missing)."
    )
    lines = diagnosis.message().splitlines()
    assert lines[1].startswith(f"- certain: Compute environment {ENVIRONMENT} is DISABLED")
    assert lines[2].startswith("  Remedy: Enable it: `aws batch update-compute-environment")
    assert lines[5].startswith("- suspected: Image")


def test_batch_and_our_own_check_of_the_same_cause_make_one_finding(find):
    reason = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - x"
    diagnosis = find(job=job(statusReason=reason, container=container(gpus=2)))
    words = "The job requests 4 vCPUs, 14336 MiB and 2 GPU(s)"
    finding = only(diagnosis, "job_does_not_fit", words)
    assert finding.evidence.startswith("Batch's status reason for the job: MISCONFIGURATION")


def test_each_cause_has_a_remedy_and_is_in_the_runbook():
    assert set(REMEDIES) == set(get_args(Cause))
    text = RUNBOOK.read_text()
    section = text[text.index("## My job is stuck") :].partition("\n## ")[0]
    assert [cause for cause in REMEDIES if f"`{cause}`" not in section] == []
