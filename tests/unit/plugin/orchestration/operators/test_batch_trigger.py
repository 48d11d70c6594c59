"""The trigger, from a job's submission to its task's end, of which its document is a part."""

import asyncio
from types import SimpleNamespace

import pytest
from airflow._shared.module_loading import import_string
from botocore.exceptions import ReadTimeoutError

from batchmark.aws.batch_jobs import KILLED
from batchmark.orchestration.operators.batch_trigger import BenchmarkJobTrigger
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


def test_a_child_of_an_array_waits_from_its_last_attempts_end():
    following = Following(children=["RUNNING", "RUNNING"], runnable_seconds=600)
    lost = {"status": "RUNNABLE", "attempts": [{"stoppedAt": (CREATED + 3000) * 1000}]}
    following.event((3500, changing(following, 1, **lost)), (99, {}), (2, {}), (2, {}), (2, {}))
    assert following.now == CREATED + 3605
    assert following.diagnosed == ["RUNNABLE"]


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
