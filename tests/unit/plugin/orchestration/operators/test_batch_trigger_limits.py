"""Limits of a followed job: which is stuck, which is late, and which may wait."""

import pytest
from botocore.exceptions import EndpointConnectionError

from batchmark.aws.batch_jobs import REASON_CHARACTERS
from batchmark.orchestration.operators.job_progress import STOP_SECONDS, UNKNOWN_SECONDS
from batchmark.orchestration.operators.job_watch import Answer
from tests.stand_ins.batch import ON_DEMAND_QUEUE, client_error
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.following import CREATED, ON_DEMAND, OUTAGE, RUNNING, SUCCEEDED, Following


@pytest.mark.parametrize("status", ["SUBMITTED", "RUNNABLE"])
def test_a_job_without_an_instance_is_terminated_with_its_diagnosis(status):
    following = Following(runnable_seconds=600)
    failure = following.fails((601, {"status": status}), (2, {}), (2, {}))
    assert following.diagnosed == [status]
    reason = f"It was {status} for more than 600 s. The queue's compute environment is INVALID"
    assert following.batch.terminated[0][1].startswith(reason)
    assert f"status reason: {reason}; apply Terraform again." in failure


def test_a_long_diagnosis_reaches_the_task_uncut_and_a_failed_one_keeps_no_job_running():
    following = Following(runnable_seconds=600)
    long = "No route. " * 300
    following.trigger.diagnosis = lambda job: long
    reason = f"It was RUNNABLE for more than 600 s. {long}"[:REASON_CHARACTERS]
    ended = {"status": "FAILED", "statusReason": reason}
    assert long.strip() in following.fails((601, {}), (2, {}), (2, ended))
    following = Following(runnable_seconds=600)
    following.trigger.diagnosis = failing(ValueError("no such queue"))
    failure = following.fails((601, {}), (2, {}), (2, {}))
    assert "Its diagnosis failed: ValueError('no such queue')" in failure


def test_a_job_that_starts_during_its_diagnosis_or_after_an_outage_is_left_alone(capsys):
    following = Following(runnable_seconds=600)
    following.succeeds((601, {}), (2, {"status": "STARTING"}), (2, RUNNING), (9, SUCCEEDED))
    assert following.diagnosed == ["RUNNABLE"]
    assert following.batch.terminated == []
    following = Following(runnable_seconds=600)
    following.succeeds((1, {}), *[(900, OUTAGE)] * 3, (2, SUCCEEDED))
    assert following.diagnosed == []
    assert capsys.readouterr().out.count("Batch did not respond") == 1


def test_a_job_that_waits_for_others_is_not_stuck_if_they_can_be_listed():
    following = Following(runnable_seconds=600, on_demand=ON_DEMAND)
    other_ends = following.ending(following.batch.add("another", "RUNNING", ON_DEMAND_QUEUE))
    failure = following.fails((601, {}), (590, other_ends), (9, {}), (2, {}), (2, {}), (2, {}))
    assert following.diagnosed == ["RUNNABLE"]
    assert following.batch.terminated[0][0] == "job-1"
    assert "It was RUNNABLE for more than 600 s" in failure
    following = Following(runnable_seconds=30, queues_of_same_quota=["arn:queue-of-g6"])
    other = following.batch.add("another target's", "RUNNING", "arn:queue-of-g6")
    other_ends = following.ending(other)
    following.succeeds((31, None), (20, other_ends), (2, RUNNING), (9, SUCCEEDED))
    assert following.diagnosed == []
    following = Following(runnable_seconds=600)
    outage = EndpointConnectionError(endpoint_url="https://batch.example")
    following.batch.list_jobs = failing(outage, client_error("AccessDeniedException", 403))
    script = (601, {}), (2, lambda: following.diagnosed.append("a poll later")), (2, {}), (2, {})
    assert "The queue's compute environment is INVALID" in following.fails(*script)
    assert following.diagnosed == ["a poll later", "RUNNABLE"]


def test_a_job_is_stuck_by_the_end_of_its_last_attempt_or_if_it_never_fits():
    following = Following(runnable_seconds=600)
    retried = {"status": "RUNNABLE", "attempts": [{"stoppedAt": (CREATED + 3000) * 1000}]}
    following.event((3500, retried), (99, {}), (2, {}), (2, {}), (2, {}))
    assert following.now == CREATED + 3605
    following = Following(runnable_seconds=600)
    following.batch.add("another", "RUNNING")
    reason = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job resource requirement is higher"
    following.event((601, {"statusReason": reason}), (2, {}), (2, {}))
    assert following.diagnosed == ["RUNNABLE"]


def test_an_attempt_stuck_in_starting_is_terminated_and_each_has_its_own_time():
    following = Following(runnable_seconds=9, starting_seconds=900)
    following.batch.jobs["job-1"]["status"] = "STARTING"
    failure = following.fails((700, {}), (890, {}), (11, {}), (2, {}), (2, {}))
    assert following.diagnosed == ["STARTING"]
    assert "status reason: It was STARTING for more than 900 s" in failure
    # Between two answers an attempt failed, and the next is STARTING, too.
    following = Following(starting_seconds=900)
    starting = {"status": "STARTING", "attempts": [{}]}
    following.succeeds(
        (800, starting), (700, starting | {"attempts": [{}, {}]}), (800, {}), (9, SUCCEEDED)
    )
    assert following.diagnosed == []


TOO_LONG = "It did not end before Batchmark's deadline, 3600 s after"
PASSED = "The task's execution_timeout has passed"
FAILED = {"status": "FAILED", "statusReason": "Essential container in task exited"}


@pytest.mark.parametrize(
    ("limit", "script", "ended_for", "why"),
    [
        ({"longest_seconds": 3600}, [(3599, RUNNING), (2, {}), (2, {})], TOO_LONG, TOO_LONG),
        ({"deadline": CREATED + 60}, [(59, RUNNING), (2, {}), (2, {})], PASSED, PASSED),
        # It ends by itself meanwhile.
        ({"deadline": CREATED + 60}, [(61, RUNNING), (1, FAILED)], PASSED, FAILED["statusReason"]),
    ],
)
def test_a_job_that_takes_too_long_is_ended_and_says_so(limit, script, ended_for, why):
    following = Following(**limit)
    failure = following.fails(*script)
    assert f"status reason: {why}" in failure
    ((job_id, reason),) = following.batch.terminated
    assert job_id == "job-1"
    assert reason.startswith(ended_for)


def test_a_job_is_ended_once_batch_answers_again_or_given_up():
    following = Following(deadline=CREATED + 60)
    refusals = client_error("ServerException", 500), client_error("TooManyRequestsException")
    following.batch.terminate_job = failing(*refusals, then=following.batch.terminate_job)
    assert PASSED in following.fails((61, RUNNING), (2, OUTAGE), (2, {}), (2, {}))
    following = Following(deadline=CREATED + 60)
    following.batch.terminate_job = lambda **_: None
    failure = following.fails((61, RUNNING), (STOP_SECONDS + 1, {}))
    assert f"was requested, but {STOP_SECONDS} s later it had still not ended" in failure


def test_a_job_that_batch_does_not_know_is_waited_for_a_while():
    following = Following()
    failure = following.fails((1, Answer()), (UNKNOWN_SECONDS, Answer()))
    assert "status reason: Batch does not know this job" in failure
    following = Following()
    following.succeeds((1, Answer()), (UNKNOWN_SECONDS - 2, Answer()), (1, SUCCEEDED))


@pytest.mark.parametrize(
    ("reason", "count"),
    [("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT", 1), ("a user was tired of waiting", 0)],
)
def test_a_job_that_its_queue_cancelled_as_stuck_is_diagnosed_too(reason, count):
    following = Following(runnable_seconds=3600)
    end = {"status": "FAILED", "statusReason": reason, "isCancelled": True}
    failure = following.fails((9, end))
    assert following.diagnosed == ["FAILED"] * count
    assert f"status reason: {reason}" in failure
    assert failure.count("apply Terraform again") == count
