"""The trigger against scripted answers of Batch, on a clock of its own."""

from __future__ import annotations

import asyncio
import threading
from io import BytesIO
from types import SimpleNamespace

import pytest
from botocore.exceptions import ReadTimeoutError

from batchmark.documents import ExpectedDocument
from batchmark.jobs import KILLED, REASON_CHARACTERS
from batchmark.triggers.batch import BenchmarkJobTrigger
from batchmark.triggers.job_watch import Answer
from batchmark.triggers.progress import STOP_SECONDS, UNKNOWN_SECONDS
from tests.unit.batch_stand_in import (
    ON_DEMAND_QUEUE,
    RECLAIMED,
    SPOT_QUEUE,
    FakeBatch,
    FakeClients,
    FakeLogs,
    client_error,
)
from tests.unit.run_builders import build_job, build_row

NAME = "batchmark-g5-xlarge-smoke-1-0123456789-g0"
CREATED = 1_795_222_701.0  # of FakeBatch's first job
REQUEST = {"jobName": NAME, "jobDefinition": "definition:1", "parameters": {"suite": "smoke"}}
ON_DEMAND = REQUEST | {"jobQueue": ON_DEMAND_QUEUE}
OUTAGE = Answer(problem="connection refused")


class Following:
    """A trigger with a fake Batch; a script moves the clock and Batch's jobs at each poll."""

    def __init__(self, *, document=None, s3=None, **arguments):
        self.batch = FakeBatch()
        self.now = CREATED
        self.script = []
        self.diagnosed = []
        self.slept = []
        self.job_id = self.batch.add(NAME, "RUNNABLE")
        self.trigger = BenchmarkJobTrigger(
            job_id=self.job_id, document=document, aws_conn_id=None, waiter_delay=2, **arguments
        )
        self.trigger.clients = FakeClients(batch=self.batch, logs=FakeLogs(), s3=s3)
        self.trigger.watch = self
        self.trigger.clock = lambda: self.now
        self.trigger.sleep = self.sleep
        self.trigger.diagnosis = self.diagnose
        self.trigger.push_xcoms = self.push_xcoms
        self.xcoms = {}

    async def push_xcoms(self, xcoms):
        self.xcoms |= xcoms

    async def next(self, job_id):
        assert self.script, f"the trigger polls once more; Batch: {self.batch.jobs}"
        seconds, change = self.script.pop(0)
        self.now += seconds
        if callable(change):
            change = change()
        if isinstance(change, Answer):
            return change
        if job_id in self.batch.jobs:
            self.batch.change(job_id, **change or {})
        return Answer(self.batch.jobs.get(job_id))

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    def diagnose(self, job):
        assert threading.current_thread() is not threading.main_thread()
        self.diagnosed.append(job["status"])
        return "The queue's compute environment is INVALID; apply Terraform again."

    def event(self, *script):
        self.script = list(script)

        async def events():
            return [event async for event in self.trigger.run()]

        (event,) = asyncio.run(events())
        assert self.script == []
        return SimpleNamespace(task_instance_state=event.task_instance_state, xcoms=self.xcoms)


SUCCEEDED = {"status": "SUCCEEDED"}
RUNNING = {"status": "RUNNING"}


def test_success_ends_the_task_with_ids_times_and_a_link():
    following = Following()
    attempt = {"startedAt": 1_795_222_731_000, "stoppedAt": 1_795_222_741_500}
    event = following.event(
        (1, {"status": "RUNNABLE"}),
        (3, {"status": "STARTING"}),
        (20, RUNNING),
        (30, SUCCEEDED | attempt | {"attempts": [attempt | {"container": {"exitCode": 0}}]}),
    )
    assert event.task_instance_state == "success"
    assert event.xcoms["return_value"] == "job-1"
    assert event.xcoms["_link_JobLogLink"] == "http://127.0.0.1:5000/local-cloud/jobs/job-1/log"
    timing = event.xcoms["timing"]
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


def test_xcoms_are_pushed_as_a_worker_pushes_them(monkeypatch):
    """An event's own would be stored as JSON within JSON."""
    pushed = []

    async def aset(key, value, **of):
        pushed.append((key, value, of))

    monkeypatch.setattr("batchmark.triggers.batch.XCom.aset", aset)
    trigger = BenchmarkJobTrigger(job_id="job-1", aws_conn_id=None)
    asyncio.run(trigger.push_xcoms({"timing": {}}))
    assert pushed == [], "no triggerer runs it"
    of = {"dag_id": "dag", "task_id": "task", "run_id": "run", "map_index": 3}
    trigger._task_instance = SimpleNamespace(**of)
    asyncio.run(trigger.push_xcoms({"timing": {"job_id": "job-1"}}))
    assert pushed == [("timing", {"job_id": "job-1"}, of)]


def test_xcoms_that_can_not_be_pushed_change_nothing_of_the_end(monkeypatch):
    async def aset(key, value, **of):
        raise RuntimeError("no API server")

    monkeypatch.setattr("batchmark.triggers.batch.XCom.aset", aset)
    trigger = BenchmarkJobTrigger(job_id="job-1", aws_conn_id=None)
    trigger._task_instance = SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1)
    asyncio.run(trigger.push_xcoms({"timing": {}}))


def test_a_trigger_survives_its_serialization():
    trigger = Following(document={"any": "field"}, on_demand=ON_DEMAND, deadline=5.0).trigger
    path, arguments = trigger.serialize()
    assert path == "batchmark.triggers.batch.BenchmarkJobTrigger"
    assert BenchmarkJobTrigger(**arguments).serialize() == (path, arguments)


def test_a_failure_says_code_reasons_each_attempt_and_the_last_lines():
    following = Following()
    failed = {
        "status": "FAILED",
        "statusReason": "Essential container in task exited",
        "container": {"exitCode": 3, "logStreamName": "stream"},
        "attempts": [
            {"startedAt": 1_795_222_731_000, "stoppedAt": 1_795_222_741_000}
            | {"statusReason": RECLAIMED, "container": {}},
            {"startedAt": 1_795_222_801_000, "stoppedAt": 1_795_222_811_000}
            | {"container": {"exitCode": 3}, "statusReason": "Essential container in task exited"},
        ],
    }
    event = following.event((1, RUNNING), (9, failed))
    assert event.task_instance_state == "failed"
    assert event.xcoms["failure"].splitlines() == [
        f"Batch job job-1 ({NAME}) is FAILED: exit code 3; "
        "status reason: Essential container in task exited",
        f"Attempt 1: 2026-11-21 00:58:51 to 00:59:01 UTC, no exit code, {RECLAIMED}",
        "Attempt 2: 2026-11-21 01:00:01 to 01:00:11 UTC, exit code 3, "
        "Essential container in task exited",
        "Last 2 lines of log stream stream of /aws/batch/job:",
        "reading input",
        "boom",
    ]


@pytest.mark.parametrize("status", ["SUBMITTED", "RUNNABLE"])
def test_a_job_that_finds_no_instance_is_ended_with_the_diagnosis(status):
    following = Following(runnable_seconds=600)
    event = following.event((601, {"status": status}), (2, {}), (2, {}))
    assert following.diagnosed == [status]
    reason = f"It was {status} for more than 600 s. The queue's compute environment is INVALID"
    assert following.batch.terminated[0][1].startswith(reason)
    assert f"status reason: {reason}; apply Terraform again." in event.xcoms["failure"]


def test_a_long_diagnosis_reaches_the_task_in_full_though_batch_keeps_its_beginning():
    following = Following(runnable_seconds=600)
    long = "No route. " * 300
    following.trigger.diagnosis = lambda job: long
    ended = {"status": "FAILED", "statusReason": ("It was RUNNABLE for more than 600 s. " + long)}
    ended["statusReason"] = ended["statusReason"][:REASON_CHARACTERS]
    event = following.event((601, {}), (2, {}), (2, ended))
    assert long.strip() in event.xcoms["failure"]


def test_a_job_that_starts_while_it_is_diagnosed_is_left_alone():
    following = Following(runnable_seconds=600)
    event = following.event((601, {}), (2, {"status": "STARTING"}), (2, RUNNING), (9, SUCCEEDED))
    assert following.diagnosed == ["RUNNABLE"]
    assert following.batch.terminated == []
    assert event.task_instance_state == "success"


def test_a_diagnosis_that_fails_does_not_keep_the_job_alive():
    following = Following(runnable_seconds=600)

    def diagnose(job):
        raise ValueError("no such queue")

    following.trigger.diagnosis = diagnose
    event = following.event((601, {}), (2, {}), (2, {}))
    assert "Its diagnosis failed: ValueError('no such queue')" in event.xcoms["failure"]


def test_waiting_for_other_jobs_of_the_queue_is_not_being_stuck():
    following = Following(runnable_seconds=600, on_demand=ON_DEMAND)
    other = following.batch.add("another", "RUNNING", ON_DEMAND_QUEUE)

    def other_ends():
        following.batch.jobs[other]["status"] = "SUCCEEDED"

    event = following.event((601, {}), (590, other_ends), (9, {}), (2, {}), (2, {}), (2, {}))
    assert following.diagnosed == ["RUNNABLE"]
    assert following.batch.terminated[0][0] == "job-1"
    assert "It was RUNNABLE for more than 600 s" in event.xcoms["failure"]


def test_waiting_for_instances_of_the_same_quota_is_not_being_stuck():
    following = Following(runnable_seconds=30, queues_of_same_quota=["arn:queue-of-g6"])
    other = following.batch.add("another target's", "RUNNING", "arn:queue-of-g6")

    def other_ends():
        following.batch.change(other, status="SUCCEEDED")

    event = following.event((31, None), (20, other_ends), (2, RUNNING), (9, SUCCEEDED))
    assert event.task_instance_state == "success"
    assert following.diagnosed == []


def test_a_job_that_never_fits_waits_for_no_other():
    following = Following(runnable_seconds=600)
    following.batch.add("another", "RUNNING")
    reason = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job resource requirement is higher"
    following.event((601, {"statusReason": reason}), (2, {}), (2, {}))
    assert following.diagnosed == ["RUNNABLE"]


def test_the_wait_of_a_retried_job_counts_from_its_last_attempts_end():
    following = Following(runnable_seconds=600)
    retried = {"status": "RUNNABLE", "attempts": [{"stoppedAt": (CREATED + 3000) * 1000}]}
    following.event((3500, retried), (99, {}), (2, {}), (2, {}), (2, {}))
    assert following.now == CREATED + 3605


def test_an_attempt_that_hangs_in_starting_is_ended_with_the_diagnosis():
    following = Following(runnable_seconds=9, starting_seconds=900)
    following.batch.jobs["job-1"]["status"] = "STARTING"
    event = following.event((700, {}), (890, {}), (11, {}), (2, {}), (2, {}))
    assert following.diagnosed == ["STARTING"]
    assert "status reason: It was STARTING for more than 900 s" in event.xcoms["failure"]


def test_each_attempt_has_its_own_time_in_starting():
    """Between two answers an attempt failed, and the next is STARTING, too."""
    following = Following(starting_seconds=900)
    starting = {"status": "STARTING", "attempts": [{}]}
    event = following.event(
        (800, starting), (700, starting | {"attempts": [{}, {}]}), (800, {}), (9, SUCCEEDED)
    )
    assert following.diagnosed == []
    assert event.task_instance_state == "success"


def test_an_outage_says_nothing_of_being_stuck():
    following = Following(runnable_seconds=600)
    event = following.event((1, {}), (900, OUTAGE), (2, SUCCEEDED))
    assert following.diagnosed == []
    assert event.task_instance_state == "success"


def test_the_longest_time_counts_from_the_submission():
    following = Following(longest_seconds=3600)
    event = following.event((3599, RUNNING), (2, {}), (2, {}))
    assert "did not end before Batchmark's deadline, 3600 s after" in event.xcoms["failure"]


def test_an_execution_timeout_that_passes_while_deferred_ends_the_job():
    following = Following(deadline=CREATED + 60)
    event = following.event((59, RUNNING), (2, {}), (2, {}))
    assert following.batch.terminated == [("job-1", "The task's execution_timeout has passed")]
    assert "status reason: The task's execution_timeout has passed" in event.xcoms["failure"]


def test_a_job_is_ended_once_batch_answers_again():
    following = Following(deadline=CREATED + 60)
    terminate = following.batch.terminate_job
    refusals = [client_error("ServerException", 500), client_error("TooManyRequestsException")]

    def terminate_job(**arguments):
        if refusals:
            raise refusals.pop(0)
        terminate(**arguments)

    following.batch.terminate_job = terminate_job
    event = following.event((61, RUNNING), (2, OUTAGE), (2, {}), (2, {}))
    assert "execution_timeout has passed" in event.xcoms["failure"]


def test_a_job_that_does_not_end_when_told_is_given_up():
    following = Following(deadline=CREATED + 60)
    following.batch.terminate_job = lambda **_: None
    event = following.event((61, RUNNING), (STOP_SECONDS + 1, {}))
    assert f"It was to end then, and {STOP_SECONDS} s later it had not" in event.xcoms["failure"]


def test_a_job_that_batch_forgot_fails_the_task_after_a_while():
    following = Following()
    event = following.event((1, Answer()), (UNKNOWN_SECONDS, Answer()))
    assert "status reason: Batch does not know this job" in event.xcoms["failure"]


def test_a_job_that_batch_does_not_know_yet_is_waited_for():
    following = Following()
    event = following.event((1, Answer()), (UNKNOWN_SECONDS - 2, Answer()), (1, SUCCEEDED))
    assert event.task_instance_state == "success"


LOST_HOST = {
    "status": "FAILED",
    "statusReason": RECLAIMED,
    "attempts": [{"statusReason": RECLAIMED, "startedAt": 1, "stoppedAt": 2}] * 2,
}


def test_after_the_last_spot_reclaim_one_on_demand_job_follows():
    following = Following(on_demand=ON_DEMAND)
    event = following.event((9, LOST_HOST), (2, RUNNING), (9, SUCCEEDED))
    assert following.batch.submissions == [ON_DEMAND]
    assert ("batch", 1) in following.trigger.clients.asked, "SubmitJob is sent once"
    assert event.xcoms["job_id"] == event.xcoms["return_value"] == "job-2"
    assert event.xcoms["job_ids"] == ["job-1", "job-2"]


def test_a_restarted_trigger_finds_the_on_demand_job():
    following = Following(on_demand=ON_DEMAND)
    following.batch.add(NAME, "RUNNING", ON_DEMAND_QUEUE)
    following.batch.add(f"{NAME}0", "RUNNING", ON_DEMAND_QUEUE)
    event = following.event((9, LOST_HOST), (2, SUCCEEDED))
    assert following.batch.submissions == []
    assert event.xcoms["job_ids"] == ["job-1", "job-2"]


def test_an_on_demand_job_that_loses_its_host_is_not_followed_by_another():
    following = Following(on_demand=ON_DEMAND)
    event = following.event((9, LOST_HOST), (2, LOST_HOST))
    assert event.task_instance_state == "failed"
    assert len(following.batch.submissions) == 1


def test_a_refused_on_demand_job_is_told_beside_the_spot_jobs_end():
    following = Following(on_demand=ON_DEMAND)
    following.batch.failures = [client_error("AccessDeniedException", 403)]
    failure = following.event((9, LOST_HOST)).xcoms["failure"]
    assert f"status reason: {RECLAIMED} no On-Demand job could follow: " in failure
    assert "AccessDeniedException" in failure


@pytest.mark.parametrize(
    ("on_demand", "end"),
    [
        (None, LOST_HOST),
        (ON_DEMAND | {"jobQueue": SPOT_QUEUE}, LOST_HOST),
        (ON_DEMAND, {"status": "FAILED", "statusReason": "Essential container in task exited"}),
        (ON_DEMAND, LOST_HOST | {"statusReason": "stop it", "isTerminated": True}),
        (ON_DEMAND, LOST_HOST | {"isTerminated": True}),
        (ON_DEMAND, LOST_HOST | {"statusReason": "CAPACITY", "isCancelled": True}),
    ],
    ids=[
        "Spot alone",
        "the same queue",
        "it failed by itself",
        "ended by hand while it waited for its second attempt",
        "ended by hand as it lost its host",
        "cancelled while it waited for its second attempt",
    ],
)
def test_nothing_else_goes_on_demand(on_demand, end):
    following = Following(on_demand=on_demand)
    event = following.event((9, end))
    assert event.task_instance_state == "failed"
    assert following.batch.submissions == []


def test_what_ended_past_a_limit_is_not_followed_by_another():
    following = Following(on_demand=ON_DEMAND, deadline=CREATED + 60)
    event = following.event((61, RUNNING), (2, LOST_HOST))
    assert event.task_instance_state == "failed"
    assert following.batch.submissions == []


def test_an_on_demand_job_whose_worker_was_told_to_stop_is_submitted_again():
    following = Following(on_demand=ON_DEMAND)
    following.batch.add(NAME, "FAILED", ON_DEMAND_QUEUE, statusReason=KILLED)
    event = following.event((9, LOST_HOST), (2, SUCCEEDED))
    assert following.batch.submissions == [ON_DEMAND]
    assert event.xcoms["job_ids"] == ["job-1", "job-3"]


@pytest.mark.parametrize(
    ("reason", "count"),
    [("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT", 1), ("a user was tired of waiting", 0)],
)
def test_what_its_queue_cancelled_as_stuck_is_diagnosed_too(reason, count):
    following = Following(runnable_seconds=3600)
    end = {"status": "FAILED", "statusReason": reason, "isCancelled": True}
    failure = following.event((9, end)).xcoms["failure"]
    assert following.diagnosed == ["FAILED"] * count
    assert f"status reason: {reason}" in failure
    assert failure.count("apply Terraform again") == count


def test_killing_the_task_ends_its_job():
    following = Following()
    asyncio.run(following.trigger.on_kill())
    assert following.batch.terminated == [("job-1", "The Airflow task was ended by a user")]


def test_killing_the_task_while_it_submits_ends_the_new_job():
    following = Following(on_demand=ON_DEMAND)
    following.script = [(9, LOST_HOST)]
    submitting, may_go_on = threading.Event(), threading.Event()
    submit = following.batch.submit_job

    def submit_job(**request):
        submitting.set()
        assert may_go_on.wait(30)
        return submit(**request)

    following.batch.submit_job = submit_job

    async def kill():
        async def follow():
            async for _ in following.trigger.run():
                pass

        run = asyncio.create_task(follow())
        await asyncio.to_thread(submitting.wait, 30)
        run.cancel()
        await asyncio.wait([run])
        may_go_on.set()
        await following.trigger.on_kill()

    asyncio.run(kill())
    assert [job_id for job_id, _ in following.batch.terminated] == ["job-2"]


def stored(body, **changes):
    """An S3 client that holds one document."""
    answer = {"Body": BytesIO(body), "ContentLength": len(body)} | changes
    meta = SimpleNamespace(endpoint_url="http://127.0.0.1:5000")
    return SimpleNamespace(get_object=lambda **_: answer, meta=meta)


def expected():
    """A document as job-1 leaves it, and what says so."""
    job = build_job("g5.xlarge", [build_row([0.1] * 8)], job_id="job-1")
    fields = ExpectedDocument.of("scheduled__2026-11-20", job.planned).model_dump()
    return job.document.to_json().encode(), fields


DONE = SUCCEEDED | {
    "attempts": [{}],
    "container": {"logStreamName": "stream"},
}


def test_a_job_with_its_document_succeeds():
    text, fields = expected()
    event = Following(document=fields, s3=stored(text)).event((9, DONE))
    assert event.task_instance_state == "success"


@pytest.mark.parametrize(
    ("text", "changes", "problem"),
    [
        (lambda text: text[:200], {}, "not a result document: invalid JSON"),
        (
            lambda text: text.replace(b'"schema_version": 2', b'"schema_version": 9'),
            {},
            "result document has schema_version 9, this Batchmark reads 1, 2",
        ),
        (lambda text: text.replace(b'"job-1"', b'"job-7"'), {}, "has job_id 'job-7', expected"),
        (lambda text: text, {"ContentLength": 200 * 2**20}, "has 200.0 MiB, more than the 16 MiB"),
    ],
    ids=["truncated", "another version", "another job", "200 MB"],
)
def test_a_success_without_a_valid_document_is_a_failure_that_says_so(text, changes, problem):
    written, fields = expected()
    event = Following(document=fields, s3=stored(text(written), **changes)).event((9, DONE))
    assert event.task_instance_state == "failed"
    first, *_, last = event.xcoms["failure"].splitlines()
    assert first.startswith(f"Batch job job-1 ({NAME}) is SUCCEEDED, but it left no valid result ")
    assert problem in first
    assert last == "boom"


def test_a_success_without_any_document_is_a_failure():
    def get_object(**_):
        raise client_error("NoSuchKey", 404)

    _, fields = expected()
    event = Following(document=fields, s3=SimpleNamespace(get_object=get_object)).event((9, DONE))
    assert "/blog/1/job-1.1.json can't be read (NoSuchKey)" in event.xcoms["failure"]


def test_while_s3_fails_nothing_is_said_of_the_document():
    text, fields = expected()
    s3 = stored(text)
    problems = [client_error("SlowDown", 503), ReadTimeoutError(endpoint_url="https://s3.example")]
    answers = s3.get_object

    def get_object(**arguments):
        if problems:
            raise problems.pop(0)
        return answers(**arguments)

    s3.get_object = get_object
    following = Following(document=fields, s3=s3)
    assert following.event((9, DONE)).task_instance_state == "success"
    assert following.slept == [2, 2]
