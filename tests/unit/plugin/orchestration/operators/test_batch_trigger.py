"""The trigger, from a job's submission to its task's end, of which its document is a part."""

import asyncio
from types import SimpleNamespace

import pytest
from airflow._shared.module_loading import import_string
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from batchmark.aws.batch_jobs import KILLED, REASON_CHARACTERS
from batchmark.orchestration.operators.batch_trigger import BenchmarkJobTrigger
from batchmark.orchestration.operators.job_progress import STOP_SECONDS, UNKNOWN_SECONDS
from batchmark.orchestration.operators.job_watch import Answer
from batchmark.runs.result_documents import ExpectedDocument, key_of
from tests.builders.runs import build_job, build_row
from tests.stand_ins.batch import ON_DEMAND_QUEUE, RECLAIMED, SPOT_QUEUE, client_error
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.following import (
    CREATED,
    LOST_HOST,
    NAME,
    ON_DEMAND,
    OUTAGE,
    RUNNING,
    SUCCEEDED,
    Following,
    Waiting,
)
from tests.stand_ins.killed_triggers import kill_during

OLD_PATH = "batchmark.orchestration.batch_trigger.BenchmarkJobTrigger"


def test_success_ends_the_task_with_ids_times_and_a_link():
    following = Following()
    attempt = {"startedAt": 1_795_222_731_000, "stoppedAt": 1_795_222_741_500}
    xcoms = following.succeeds(
        (1, {"status": "RUNNABLE"}),
        (3, {"status": "STARTING"}),
        (20, RUNNING),
        (30, SUCCEEDED | attempt | {"attempts": [attempt | {"container": {"exitCode": 0}}]}),
    )
    assert xcoms["return_value"] == "job-1"
    assert xcoms["_link_JobLogLink"] == "http://127.0.0.1:5000/local-cloud/jobs/job-1/log"
    timing = xcoms["timing"]
    assert timing["created_at"] == "2026-11-21T00:58:21+00:00"
    assert timing["first_seen"]["RUNNABLE"] == "2026-11-21T00:58:22+00:00"
    assert timing["first_seen"]["STARTING"] == "2026-11-21T00:58:25+00:00"
    assert timing["phases"] == {
        "until_first_start_seconds": 30.0,
        "last_attempt_seconds": 10.5,
        "earlier_attempts_seconds": 0,
    }
    (told,) = timing["attempts"]
    assert (told["exit_code"], told["stopped_at"]) == (0, "2026-11-21T00:59:01.500000+00:00")


def test_xcoms_are_pushed_as_a_worker_pushes_them_or_left_out(monkeypatch):
    """An event's XComs would be stored as JSON within JSON."""
    pushed = []

    async def aset(key, value, **of):
        pushed.append((key, value, of))

    monkeypatch.setattr("batchmark.orchestration.operators.ending_trigger.XCom.aset", aset)
    trigger = BenchmarkJobTrigger(job_id="job-1", aws_conn_id=None)
    asyncio.run(trigger.push_xcoms({"timing": {}}))
    assert pushed == [], "no triggerer runs it"
    of = {"dag_id": "dag", "task_id": "task", "run_id": "run", "map_index": 3}
    trigger._task_instance = SimpleNamespace(**of)
    asyncio.run(trigger.push_xcoms({"timing": {"job_id": "job-1"}}))
    assert pushed == [("timing", {"job_id": "job-1"}, of)]
    aset = failing(RuntimeError("no API server"))
    monkeypatch.setattr("batchmark.orchestration.operators.ending_trigger.XCom.aset", aset)
    asyncio.run(trigger.push_xcoms({"timing": {}}))


def test_a_trigger_survives_its_serialization():
    made = Following(document={"any": "field"}, on_demand=ON_DEMAND, deadline=5.0).trigger
    waiting = Waiting(on_demand=ON_DEMAND, ahead=[3, 1], alone=False).trigger
    waiting.ahead.pop()
    for trigger in (made, waiting):
        path, arguments = trigger.serialize()
        assert path == "batchmark.orchestration.operators.batch_trigger.BenchmarkJobTrigger"
        assert BenchmarkJobTrigger(**arguments).serialize() == (path, arguments)
    assert [arguments[name] for name in ("job_id", "after", "alone")] == [None, 0, False]
    assert arguments["ahead"] == [3, 1]
    # A triggerer makes one of the class path that the database holds, also from before it moved.
    _, arguments = Following(on_demand=ON_DEMAND).trigger.serialize()
    assert import_string(OLD_PATH)(**arguments).order.on_demand == ON_DEMAND
    following = Following(trigger=import_string(OLD_PATH))
    assert following.succeeds((1, RUNNING), (30, SUCCEEDED))["return_value"] == "job-1"


def test_killing_the_task_ends_its_job_if_it_has_one_or_just_submits_it():
    for following, ended in ((Following(), ["job-1"]), (Waiting(), [])):
        asyncio.run(following.trigger.on_kill())
        reasons = dict.fromkeys(ended, "The Airflow task was ended by a user")
        assert dict(following.batch.terminated) == reasons
    following = Following(on_demand=ON_DEMAND)
    following.script = [(9, LOST_HOST)]
    kill_during(
        following.trigger, following.batch, "submit_job", lambda: following.batch.terminated
    )
    assert [job_id for job_id, _ in following.batch.terminated] == ["job-2"]


JOB = build_job("g5.xlarge", [build_row([0.1] * 8)], job_id="job-1")
EXPECTED = ExpectedDocument.of(JOB.document.run_id, JOB.planned)
TEXT = JOB.document.to_json().encode()
DONE = SUCCEEDED | {"attempts": [{}], "container": {"logStreamName": "stream"}}


def having_left(text):
    """A trigger whose job left this, or nothing."""
    s3 = MemoryBucket(EXPECTED.bucket, "us-east-1")
    s3.objects = {key_of(EXPECTED.uri("job-1", 1)): text} if text else {}
    return Following(document=EXPECTED.model_dump(), s3=s3)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TEXT[:200], "not a result document: invalid JSON"),
        (None, "/blog/1/job-1.1.json can't be read (NoSuchKey)"),
    ],
    ids=["cut off", "missing"],
)
def test_a_success_without_a_valid_document_fails_with_the_reason(text, problem):
    failure = having_left(text).fails((9, DONE))
    first, *_, last = failure.splitlines()
    assert first.startswith(f"Batch job job-1 ({NAME}) is SUCCEEDED, but it left no valid result ")
    assert problem in first
    assert last == "boom"


def test_a_document_is_not_judged_while_s3_fails_or_refuses():
    made = having_left(TEXT)
    made.trigger.clients.clients["s3"].on_call = failing(
        client_error("SlowDown", 503),
        ReadTimeoutError(endpoint_url="https://s3.example"),
        *(client_error(code, 403) for code in ("ExpiredToken", "AccessDenied", "InvalidToken")),
        then=lambda *_: None,
    )
    made.succeeds((9, DONE))
    assert made.slept == [2] * 5


def test_after_the_last_spot_reclaim_one_on_demand_job_follows_which_a_restarted_trigger_finds():
    following = Following(on_demand=ON_DEMAND)
    xcoms = following.succeeds((9, LOST_HOST), (2, RUNNING), (9, SUCCEEDED))
    assert following.batch.submissions == [ON_DEMAND]
    assert ("batch", 1) in following.trigger.clients.asked, "SubmitJob is sent once"
    assert xcoms["job_id"] == xcoms["return_value"] == "job-2"
    assert xcoms["job_ids"] == ["job-1", "job-2"]
    following = Following(on_demand=ON_DEMAND)
    following.batch.failures = [client_error("AccessDeniedException", 403)]
    failure = following.fails((9, LOST_HOST))
    assert f"status reason: {RECLAIMED} no On-Demand job could be submitted: " in failure
    assert "AccessDeniedException" in failure
    following = Following(on_demand=ON_DEMAND)
    following.batch.add(NAME, "RUNNING", ON_DEMAND_QUEUE)
    following.batch.add(f"{NAME}0", "RUNNING", ON_DEMAND_QUEUE)
    xcoms = following.succeeds((9, LOST_HOST), (2, SUCCEEDED))
    assert following.batch.submissions == []
    assert xcoms["job_ids"] == ["job-1", "job-2"]
    following = Following(on_demand=ON_DEMAND)
    following.batch.add(NAME, "FAILED", ON_DEMAND_QUEUE, statusReason=KILLED)
    xcoms = following.succeeds((9, LOST_HOST), (2, SUCCEEDED))
    assert following.batch.submissions == [ON_DEMAND]
    assert xcoms["job_ids"] == ["job-1", "job-3"]


@pytest.mark.parametrize(
    ("on_demand", "script", "submissions"),
    [
        (None, [(9, LOST_HOST)], 0),
        (ON_DEMAND | {"jobQueue": SPOT_QUEUE}, [(9, LOST_HOST)], 0),
        (ON_DEMAND, [(9, {"status": "FAILED", "statusReason": "Essential container exited"})], 0),
        (ON_DEMAND, [(61, RUNNING), (2, LOST_HOST)], 0),  # terminated at its limit
        (ON_DEMAND, [(9, LOST_HOST), (2, LOST_HOST)], 1),
    ],
    ids=["Spot alone", "the same queue", "it failed by itself", "too late", "not twice"],
)
def test_nothing_else_goes_on_demand(on_demand, script, submissions):
    following = Following(on_demand=on_demand, deadline=CREATED + 60)
    following.fails(*script)
    assert len(following.batch.submissions) == submissions


ENDED = {"startedAt": 1_795_222_731_000, "stoppedAt": 1_795_222_741_000}


def changing(following, index, **fields):
    return lambda: following.batch.change_child("job-1", index, **fields)


def test_an_array_whose_children_run_is_not_stuck_though_its_parent_is_pending():
    following = Following(children=["RUNNING"] * 3, runnable_seconds=600, starting_seconds=60)
    spans = [ENDED | {"startedAt": ENDED["startedAt"] + 1000 * n} for n in range(3)]
    ends = [
        (1, changing(following, n, status="SUCCEEDED", attempts=[span], **span))
        for n, span in enumerate(spans)
    ]
    xcoms = following.succeeds((900, {}), *ends)
    assert xcoms["timing"]["started_at"] == "2026-11-21T00:58:51+00:00", "of the first child"
    assert xcoms["timing"]["phases"]["last_attempt_seconds"] == 10
    assert following.diagnosed == following.batch.terminated == []


def test_a_failed_array_names_its_failed_children_and_shows_the_first_ones_log():
    following = Following(children=["RUNNING"] * 3)
    killed = {"exitCode": 137, "reason": "OutOfMemoryError", "logStreamName": "stream-1"}
    waited = {"exitCode": 1, "logStreamName": "stream-2"}
    failed = {"status": "FAILED", "statusReason": "Essential container in task exited"}
    first = failed | ENDED | {"attempts": [ENDED | {"container": killed}]}
    failure = following.fails(
        (1, changing(following, 0, status="SUCCEEDED")),
        (1, changing(following, 2, **failed, stoppedAt=ENDED["stoppedAt"] + 9, container=waited)),
        (1, changing(following, 1, **first, container=killed)),
    )
    lines = failure.splitlines()
    reason = "status reason: Essential container in task exited"
    out_of_memory = (
        f"exit code 137 (killed, usually out of memory); {reason}; container: OutOfMemoryError"
    )
    assert lines[0] == f"Batch job job-1 ({NAME}) is FAILED: {out_of_memory}"
    assert lines[1:4] == [
        "2 of 3 children failed:",
        f"1: {out_of_memory}",
        f"2: exit code 1 (the command's own error); {reason}",
    ]
    assert "lines of log stream stream-1 in log group /aws/batch/job:" in failure
    assert following.xcoms["_link_JobLogLink"].endswith("/local-cloud/jobs/job-1%3A1/log")


def test_an_array_that_lost_its_host_is_followed_by_an_on_demand_one():
    following = Following(children=["RUNNING"] * 2, on_demand=ON_DEMAND)
    lost = {"status": "FAILED", "statusReason": RECLAIMED, "stoppedAt": 9}
    alone = {"status": "FAILED", "statusReason": "Essential container in task exited"}
    xcoms = following.succeeds(
        (1, changing(following, 0, **alone, stoppedAt=5)),
        (1, changing(following, 1, **lost)),
        (2, {"status": "SUCCEEDED"}),
    )
    assert following.batch.submissions == [ON_DEMAND]
    assert xcoms["job_ids"] == ["job-1", "job-2"]


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


def test_a_job_or_child_is_stuck_by_the_end_of_its_last_attempt_or_if_it_never_fits():
    retried = {"status": "RUNNABLE", "attempts": [{"stoppedAt": (CREATED + 3000) * 1000}]}
    job, array = (Following(runnable_seconds=600, children=each) for each in ((), ["RUNNING"] * 2))
    for following, change in ((job, retried), (array, changing(array, 1, **retried))):
        following.event((3500, change), (99, {}), (2, {}), (2, {}), (2, {}))
        assert following.now == CREATED + 3605
        assert following.diagnosed == ["RUNNABLE"]
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


def test_a_job_is_ended_once_batch_answers_again_and_one_that_it_does_not_know_waited_for():
    following = Following(deadline=CREATED + 60)
    refusals = client_error("ServerException", 500), client_error("TooManyRequestsException")
    following.batch.terminate_job = failing(*refusals, then=following.batch.terminate_job)
    assert PASSED in following.fails((61, RUNNING), (2, OUTAGE), (2, {}), (2, {}))
    following = Following(deadline=CREATED + 60)
    following.batch.terminate_job = lambda **_: None
    failure = following.fails((61, RUNNING), (STOP_SECONDS + 1, {}))
    assert f"was requested, but {STOP_SECONDS} s later it had still not ended" in failure
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
