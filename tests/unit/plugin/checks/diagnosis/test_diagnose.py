"""The whole diagnosis: the queue, its environments and jobs, order, messages and refused calls."""

import json
from datetime import timedelta
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
    NOW,
    QUEUE,
    container,
    job,
    one_environment,
    only,
    queue,
    quota,
    summary,
    two_environments,
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


def test_an_unknown_queue_is_the_only_finding(find, aws):
    finding = only(find({"DescribeJobQueues": {"jobQueues": []}}), "queue_unknown", certain=True)
    assert finding.evidence == "Batch has no queue batchmark-g5-xlarge."
    assert [name for name, _ in aws.calls] == ["DescribeJobQueues"]


@pytest.mark.parametrize(("waiting", "certain"), [([], True), ([summary()], False)])
def test_a_disabled_queue_certainly_stops_only_new_jobs(find, waiting, certain):
    disabled = {"DescribeJobQueues": {"jobQueues": [queue(state="DISABLED")]}}
    words = "is DISABLED: Batch accepts no new jobs for it."
    answers = disabled | {"ListJobs": {"jobSummaryList": waiting}}
    only(find(answers), "queue_disabled", words, certain=certain)


INVALID = {"status": "INVALID", "statusReason": "it is gone"}
DISABLED = {"state": "DISABLED"}
NO_CAPACITY = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - g5.xlarge"
SMALL = {"resources": {"maxvCpus": 2}}
OF_IT = f"Compute environment {ENVIRONMENT} is"
# By cause, what takes no job, and what is said of it.
CLOSED = {
    "queue_invalid": {"DescribeJobQueues": {"jobQueues": [queue(**INVALID)]}},
    "environment_invalid": one_environment(**INVALID),
    "environment_disabled": one_environment(**DISABLED),
    "environment_not_ready": one_environment(status="CREATING", statusReason="r"),
    "max_vcpus_too_small": one_environment(**SMALL),
}
EVIDENCE = {
    "queue_invalid": "Queue batchmark-g5-xlarge is INVALID: it is gone",
    "environment_invalid": f"{OF_IT} INVALID: it is gone.",
    "environment_disabled": f"{OF_IT} DISABLED: Batch places no job in it.",
    "environment_not_ready": f"{OF_IT} CREATING: r.",
    "max_vcpus_too_small": f"The job requests 4 vCPUs, but {ENVIRONMENT} is limited to 2.",
}


@pytest.mark.parametrize("cause", CLOSED)
def test_what_takes_no_job_is_certain(find, cause):
    assert only(find(CLOSED[cause]), cause, certain=True).evidence == EVIDENCE[cause]


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (NO_CAPACITY, "no_capacity"),
        ("MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - x", "max_vcpus_too_small"),
        ("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - x", "job_does_not_fit"),
        ("MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED - x", "instance_unsupported"),
        ("MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS - x", "service_role"),
        ("ACTION_REQUIRED - CE(s) are invalid.", "environment_invalid"),
        ("UNDETERMINED - Batch job is blocked", "undetermined"),
        (f"Canceled by JobStateTimeLimit action due to reason: {NO_CAPACITY}", "no_capacity"),
    ],
)
def test_what_batch_says_of_the_job_is_believed(find, reason, cause):
    certain = cause != "undetermined"
    only(find(job=job(statusReason=reason)), cause, reason.rstrip("."), certain=certain)


def test_missing_capacity_of_spot_environments_is_spot_capacity(find):
    changed = two_environments(second={"resources": {"type": "SPOT"}})
    changed["GetServiceQuota"] = {"Quota": quota(64)}
    only(find(changed, job=job(statusReason=NO_CAPACITY)), "no_spot_capacity")


def test_batchs_reason_counts_even_if_the_environments_are_unknown(ask, find):
    assert find(job=job(statusReason="something new")).findings == ()
    stuck = job(statusReason=NO_CAPACITY)
    diagnosis = ask({"DescribeComputeEnvironments": "AccessDeniedException"}, job=stuck)
    only(diagnosis, "no_capacity", certain=True)


def blocked(job_id="waiting", queue_name=QUEUE, minute=0, kind="Batch Job Queue Blocked"):
    event = {
        "detail-type": kind,
        "time": f"2026-11-21T11:{minute:02}:00Z",
        "detail": {
            "jobId": job_id,
            "jobQueue": f"arn:aws:batch:us-east-1:123456789012:job-queue/{queue_name}",
            "statusReason": "MISCONFIGURATION:"
            + ("SERVICE_ROLE_PERMISSIONS" if minute else "JOB_RESOURCE_REQUIREMENT"),
        },
    }
    return {"message": json.dumps(event)}


def test_an_event_of_a_blocked_queue_a_child_or_a_job_that_is_gone_names_the_cause(find, aws):
    events = [blocked(minute=30), blocked(minute=0), blocked("another")]
    events += [blocked(queue_name="other"), blocked(kind="Batch Job State Change")]
    diagnosis = find({"FilterLogEvents": {"events": events}}, events_log_group=EVENTS_GROUP)
    words = "At 2026-11-21T11:30:00Z, job waiting blocked the queue"
    only(diagnosis, "service_role", words, certain=False)
    (asked,) = aws.asked("FilterLogEvents")
    assert asked["logGroupName"] == EVENTS_GROUP
    assert asked["startTime"] == int((NOW - timedelta(hours=1)).timestamp() * 1000)
    events = {"FilterLogEvents": {"events": [blocked("waiting:1"), blocked("waiting:2")]}}
    array = job(arrayProperties={"size": 2})
    diagnosis = find(events, job=array, events_log_group=EVENTS_GROUP)
    only(diagnosis, "job_does_not_fit", "job waiting:1 blocked the queue")
    changed = {"ListJobs": {"jobSummaryList": []}, "FilterLogEvents": {"events": [blocked("gone")]}}
    only(find(changed, events_log_group=EVENTS_GROUP), "job_does_not_fit", certain=False)


@pytest.mark.parametrize("reason", [None, "UNDETERMINED - Batch job is blocked"])
def test_older_jobs_of_the_queue_go_first(find, reason):
    ages = {"waiting": 0, "younger": -1, "second": 1, "first": 2}
    waiting = [summary(name, created_at=CREATED_AT - age) for name, age in ages.items()]
    waiting[-1] |= {"statusReason": reason} if reason else {}
    diagnosis = find({"ListJobs": {"jobSummaryList": waiting}}, job=job())
    words = ("2 RUNNABLE job(s) are ahead in the queue; the first is first", reason or "first.")
    only(diagnosis, "behind_other_jobs", *words, certain=reason is not None)


@pytest.mark.parametrize(
    ("first", "cause"), [(SMALL, "max_vcpus_too_small"), (INVALID, "environment_invalid")]
)
def test_what_keeps_a_job_from_one_environment_of_two_is_only_suspected(find, first, cause):
    only(find(two_environments(first=dict(first))), cause, certain=False)
    diagnosis = find(two_environments(first=dict(DISABLED), second=DISABLED))
    words = ("spot is DISABLED", "on-demand is DISABLED")
    only(diagnosis, "environment_disabled", *words, certain=True)
