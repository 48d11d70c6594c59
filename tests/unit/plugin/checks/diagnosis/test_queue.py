"""Batch's queue, its compute environments, the job and the jobs ahead."""

import json
from datetime import timedelta

import pytest

from tests.stand_ins.diagnosis_answers import (
    CREATED_AT,
    ENVIRONMENT,
    EVENTS_GROUP,
    NOW,
    QUEUE,
    job,
    one_environment,
    only,
    queue,
    quota,
    summary,
    two_environments,
)


def test_an_unknown_queue_is_the_only_finding(find, aws):
    finding = only(find({"DescribeJobQueues": {"jobQueues": []}}), "queue_unknown", certain=True)
    assert finding.evidence == "Batch has no queue batchmark-g5-xlarge."
    assert [name for name, _ in aws.calls] == ["DescribeJobQueues"]


@pytest.mark.parametrize(("waiting", "certain"), [([], True), ([summary()], False)])
def test_a_disabled_queue_certainly_stops_only_new_jobs(find, waiting, certain):
    diagnosis = find(
        {
            "DescribeJobQueues": {"jobQueues": [queue(state="DISABLED")]},
            "ListJobs": {"jobSummaryList": waiting},
        }
    )
    words = "is DISABLED: Batch accepts no new jobs for it."
    only(diagnosis, "queue_disabled", words, certain=certain)


def test_an_invalid_queue_says_why(find):
    answer = {"jobQueues": [queue(status="INVALID", statusReason="its environment is gone")]}
    words = "INVALID: its environment is gone"
    only(find({"DescribeJobQueues": answer}), "queue_invalid", words, certain=True)


@pytest.mark.parametrize(
    ("fields", "cause", "evidence"),
    [
        (
            {"status": "INVALID", "statusReason": "CLIENT_ERROR - no such profile"},
            "environment_invalid",
            "is INVALID: CLIENT_ERROR - no such profile.",
        ),
        ({"state": "DISABLED"}, "environment_disabled", "is DISABLED: Batch places no job in it."),
        ({"status": "CREATING", "statusReason": "r"}, "environment_not_ready", "is CREATING: r."),
    ],
)
def test_an_environment_that_takes_no_jobs(find, fields, cause, evidence):
    finding = only(find(one_environment(**fields)), cause, certain=True)
    assert finding.evidence == f"Compute environment {ENVIRONMENT} {evidence}"


def test_two_environments_with_one_cause_make_one_finding(find):
    diagnosis = find(two_environments(first={"state": "DISABLED"}, second={"state": "DISABLED"}))
    words = ("spot is DISABLED", "on-demand is DISABLED")
    only(diagnosis, "environment_disabled", *words, certain=True)


@pytest.mark.parametrize(
    ("reason", "cause", "certain"),
    [
        ("CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - g5.xlarge", "no_capacity", True),
        ("MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - x", "max_vcpus_too_small", True),
        ("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - x", "job_does_not_fit", True),
        (
            "MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED - x",
            "instance_unsupported",
            True,
        ),
        ("MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS - x", "service_role", True),
        ("ACTION_REQUIRED - CE(s) are invalid.", "environment_invalid", True),
        ("UNDETERMINED - Batch job is blocked", "undetermined", False),
        (
            "Canceled by JobStateTimeLimit action due to reason: "
            "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
            "no_capacity",
            True,
        ),
    ],
)
def test_what_batch_says_of_the_job_is_believed(find, reason, cause, certain):
    only(find(job=job(statusReason=reason)), cause, reason.rstrip("."), certain=certain)


def test_missing_capacity_of_spot_environments_is_spot_capacity(find):
    changed = two_environments(second={"resources": {"type": "SPOT"}})
    changed["GetServiceQuota"] = {"Quota": quota(64)}
    reason = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - g5.xlarge"
    only(find(changed, job=job(statusReason=reason)), "no_spot_capacity")


def test_batchs_reason_counts_even_if_the_environments_are_unknown(ask):
    stuck = job(statusReason="CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - g5.xlarge")
    diagnosis = ask({"DescribeComputeEnvironments": "AccessDeniedException"}, job=stuck)
    only(diagnosis, "no_capacity", certain=True)


def test_an_unknown_reason_of_batch_is_not_a_cause(find):
    assert find(job=job(statusReason="something new")).findings == ()


def blocked(job_id="waiting", queue_name=QUEUE, minute=0, kind="Batch Job Queue Blocked"):
    event = {
        "detail-type": kind,
        "time": f"2026-11-21T11:{minute:02}:00Z",
        "detail": {
            "jobId": job_id,
            "jobQueue": f"arn:aws:batch:us-east-1:123456789012:job-queue/{queue_name}",
            "statusReason": "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - the first"
            if not minute
            else "MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS - the second",
        },
    }
    return {"message": json.dumps(event)}


def test_an_event_of_a_blocked_queue_names_the_cause(find, aws):
    events = [
        blocked(minute=30),
        blocked(minute=0),
        blocked("another"),
        blocked(queue_name="other"),
        blocked(kind="Batch Job State Change"),
    ]
    diagnosis = find({"FilterLogEvents": {"events": events}}, events_log_group=EVENTS_GROUP)
    words = "At 2026-11-21T11:30:00Z, job waiting blocked the queue"
    only(diagnosis, "service_role", words, certain=False)
    (asked,) = aws.asked("FilterLogEvents")
    assert asked["logGroupName"] == EVENTS_GROUP
    assert asked["startTime"] == int((NOW - timedelta(hours=1)).timestamp() * 1000)


def test_an_event_of_a_child_counts_for_its_array_job(find):
    events = {"FilterLogEvents": {"events": [blocked("waiting:1"), blocked("waiting:2")]}}
    array = job(arrayProperties={"size": 2})
    diagnosis = find(events, job=array, events_log_group=EVENTS_GROUP)
    only(diagnosis, "job_does_not_fit", "job waiting:1 blocked the queue")


def test_an_event_of_a_job_that_is_gone_is_only_suspected(find):
    changed = {"ListJobs": {"jobSummaryList": []}, "FilterLogEvents": {"events": [blocked("gone")]}}
    only(find(changed, events_log_group=EVENTS_GROUP), "job_does_not_fit", certain=False)


@pytest.mark.parametrize("reason", [None, "UNDETERMINED - Batch job is blocked"])
def test_older_jobs_of_the_queue_go_first(find, reason):
    first = summary(
        "first", created_at=CREATED_AT - 2, **({"statusReason": reason} if reason else {})
    )
    waiting = [
        summary("waiting"),
        summary("younger", created_at=CREATED_AT + 1),
        summary("second", created_at=CREATED_AT - 1),
        first,
    ]
    diagnosis = find({"ListJobs": {"jobSummaryList": waiting}}, job=job())
    words = ("2 RUNNABLE job(s) are ahead in the queue; the first is first", reason or "first.")
    only(diagnosis, "behind_other_jobs", *words, certain=reason is not None)


def test_a_limit_below_the_jobs_vcpus(find):
    diagnosis = find(one_environment(resources={"maxvCpus": 2}))
    finding = only(diagnosis, "max_vcpus_too_small", certain=True)
    assert finding.evidence == f"The job requests 4 vCPUs, but {ENVIRONMENT} is limited to 2."


@pytest.mark.parametrize(
    ("first", "cause"),
    [
        ({"resources": {"maxvCpus": 2}}, "max_vcpus_too_small"),
        ({"status": "INVALID", "statusReason": "no role"}, "environment_invalid"),
    ],
)
def test_what_keeps_a_job_from_one_environment_of_two_is_only_suspected(find, first, cause):
    only(find(two_environments(first=first)), cause, certain=False)
