"""A job that shares an instance: when the trigger submits it, and when it takes it back."""

import asyncio
import itertools
from threading import Barrier
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError

from batchmark.aws.batch_jobs import STEPPED_BACK
from batchmark.orchestration.operators import batch_trigger, turns
from batchmark.orchestration.operators.batch_trigger import BenchmarkJobTrigger
from batchmark.orchestration.operators.job_watch import Answer
from batchmark.runs.job_outcome import JobOutcome
from tests.stand_ins.batch import FINISHED, ON_DEMAND_QUEUE, client_error
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.following import (
    CREATED,
    NAME,
    ON_DEMAND,
    OUTAGE,
    REQUESTED,
    SUCCEEDED,
    Following,
    Waiting,
)


def test_a_job_that_need_not_be_alone_looks_at_no_queue_and_never_steps_back():
    """As an own job, in a queue that others use all the time."""
    following = Waiting([True], alone=False)
    following.batch.add("another-run", "RUNNING", createdAt=1)
    following.batch.list_jobs = None
    xcoms = following.succeeds((1, SUCCEEDED))
    assert xcoms["return_value"] == xcoms["job_id"] == "job-2"
    assert following.slept == []
    assert following.batch.terminated == []


def test_a_job_is_submitted_unless_its_sides_first_one_failed_by_its_own_error(capsys):
    following = Waiting([True], alone=False, first=0, errors={0: "exit code 3 (its own)"})
    assert following.event() == "skipped"
    assert following.batch.submissions == []
    why = "not run, because the first job of this side failed: exit code 3 (its own)"
    assert following.xcoms == {"not_run": why}
    told = capsys.readouterr().out
    assert f"{why}. Once the cause is fixed, clear the task with map index 0 and this one" in told
    following = Waiting([True], alone=False, first=0, errors={1: "of another side"})
    assert following.succeeds((1, SUCCEEDED))["return_value"] == "job-1"


@pytest.mark.parametrize("told", ["exit code 3", None])
def test_whether_the_first_job_failed_by_itself_is_asked_of_its_task(monkeypatch, told):
    asked = []

    async def aget_one(**wanted):
        asked.append(wanted)
        return told

    monkeypatch.setattr(turns.XCom, "aget_one", aget_one)
    trigger = Following(request=REQUESTED).trigger
    assert asyncio.run(trigger.own_error(0)) is None, "dag.test() has no tasks to ask"
    task = {"dag_id": "own", "task_id": "run_benchmark", "run_id": "run"}
    trigger.task_instance = SimpleNamespace(**task, map_index=4)
    assert asyncio.run(trigger.own_error(0)) == told
    assert asked == [task | {"key": "own_error", "map_index": 0}]


def test_a_job_that_fails_by_its_own_error_says_so_to_those_behind_it_and_its_log_once(
    monkeypatch, capsys
):
    following = Waiting([True], alone=False)
    end = JobOutcome("Batch job is FAILED: exit code 3\nboom", {}, "exit code 3")
    monkeypatch.setattr(batch_trigger, "outcome", lambda *_: end)
    assert following.fails((1, {"status": "FAILED"})) == end.failure
    assert following.xcoms["own_error"] == "exit code 3"
    assert "boom" not in capsys.readouterr().out, "its task's next try ends with all of it"


@pytest.mark.parametrize("status", ["SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING"])
def test_a_job_waits_for_every_live_job_of_its_instance_and_says_for_which(status, capsys):
    """As a task that was cleared while its run's last job runs, or a run of another DAG does."""
    following = Waiting([True])
    other = following.batch.add("another-run", status)
    following.batch.add("another-queue", "RUNNING", ON_DEMAND_QUEUE)
    following.pending = [lambda: None, following.ending(other)]
    submit = following.batch.submit_job

    def submit_job(**request):
        assert not following.pending, "another job is there"
        return submit(**request)

    following.batch.submit_job = submit_job
    xcoms = following.succeeds((1, SUCCEEDED))
    assert following.batch.submissions == [REQUESTED]
    assert xcoms["job_id"] == "job-3"
    told = capsys.readouterr().out
    assert told.count("Waiting for job job-1 (another-run) to end") == 1


def with_rival(created_at, **happening_too):
    """A trigger that sees another's job only when its own is submitted."""
    following = Waiting([True, True])

    def show():
        following.batch.change(following.batch.add("rival", "RUNNABLE"), createdAt=created_at)
        if happening_too:
            following.batch.change("job-1", **happening_too)

    return following, show


@pytest.mark.parametrize("problems", [[], [client_error("TooManyRequestsException")]])
def test_of_two_jobs_submitted_at_once_the_later_steps_back_and_comes_after_the_other(problems):
    """Though Batch does not answer at first."""
    following, show = with_rival(created_at=1)
    following.batch.terminate_job = failing(*problems, then=following.batch.terminate_job)
    following.pending = [show, lambda: None, lambda: None, following.ending("job-2")]
    xcoms = following.succeeds((1, SUCCEEDED))
    assert following.batch.terminated == [("job-1", STEPPED_BACK)]
    assert following.batch.submissions == [REQUESTED] * 2
    assert xcoms["job_ids"] == ["job-3"]
    assert xcoms["return_value"] == "job-3"


def test_a_job_that_is_found_steps_back_if_another_came_first_and_is_not_taken_up_again():
    following = Waiting([True])
    found = following.batch.add(NAME, "RUNNABLE")
    rival = following.batch.add("rival", "RUNNING", createdAt=1)
    following.pending = [lambda: None, lambda: None, following.ending(rival)]
    xcoms = following.succeeds((1, SUCCEEDED))
    assert following.batch.terminated == [(found, STEPPED_BACK)]
    assert xcoms["job_ids"] == ["job-3"]
    following, show = with_rival(created_at=1)

    def end():
        following.batch.change("job-1", statusReason="Job terminated")
        following.batch.change("job-2", status="SUCCEEDED")

    following.pending = [show, end]
    xcoms = following.succeeds((1, SUCCEEDED))
    assert xcoms["job_ids"] == ["job-3"]


def test_of_two_jobs_submitted_at_once_the_oldest_stays_as_does_one_that_is_over():
    following, show = with_rival(created_at=9_795_222_700_000)
    following.pending = [show]
    xcoms = following.succeeds((1, SUCCEEDED))
    assert following.batch.terminated == []
    assert xcoms["return_value"] == "job-1"
    following, show = with_rival(created_at=1, status="FAILED", statusReason="boom")
    following.pending = [show]
    failure = following.fails((1, {}))
    assert following.batch.terminated == []
    assert "boom" in failure


def test_two_triggers_that_wait_for_one_job_both_run_theirs_one_after_the_other():
    """Both see its end in the same moment, and both submit."""
    names = [NAME, f"rival-{NAME}"]
    first = Waiting([True, True])
    batch, most = first.batch, []
    submit, calls, together = batch.submit_job, itertools.count(), Barrier(2)

    def submit_job(**request):
        if next(calls) < 2:
            together.wait(30)
        return submit(**request)

    batch.submit_job = submit_job
    blocking = batch.add("another-run", "RUNNING")
    second = Following(request=REQUESTED | {"jobName": names[1]})
    second.trigger.clients = first.trigger.clients

    def live():
        return [job for job in batch.jobs.values() if job["status"] not in FINISHED]

    async def ended(following):
        following.trigger.sleep = pause
        following.trigger.watch = SimpleNamespace(next=next_answer)
        return [event async for event in following.trigger.run()]

    async def pause(_):
        await asyncio.sleep(0.01)
        batch.change(blocking, status="SUCCEEDED")

    async def next_answer(job_id):
        while not batch.terminated:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.03)  # in which the other would be submitted again
        most.append(len(live()))
        batch.change(job_id, status="SUCCEEDED")
        return Answer(batch.jobs[job_id])

    async def both():
        return await asyncio.wait_for(asyncio.gather(ended(first), ended(second)), 5)

    asyncio.run(both())
    assert most == [1, 1], "each is followed alone"
    assert [each.xcoms["return_value"] in batch.jobs for each in (first, second)] == [True] * 2
    succeeded = [job["jobName"] for job in batch.jobs.values() if job["status"] == "SUCCEEDED"]
    assert sorted(succeeded) == sorted(["another-run", *names])


@pytest.mark.parametrize(
    ("over", "limits", "seconds"),
    [
        ([True], {"longest_seconds": 3600}, 3610),
        ([True], {"deadline": CREATED + 60}, 70),
        # A job of another run does not take more than the task has left of its turns.
        ([False] * 5 + [True], {"latest_turn": CREATED + 60, "longest_seconds": 3600}, 20),
    ],
)
def test_a_job_that_gets_no_turn_in_time_fails_its_task_and_names_the_job_in_its_way(
    over, limits, seconds
):
    following = Waiting(over, **limits)
    following.batch.add("another-run", "RUNNING")
    failure = following.fails()
    assert following.batch.submissions == []
    assert (
        f"because its instance did not become free within {seconds} s: job job-1 (another-run)"
    ) in failure
    assert "is RUNNING in arn:queue-spot" in failure


def test_the_next_triggerer_finds_the_job_that_the_one_before_submitted_and_nobody_elses():
    following = Waiting([True])
    found = following.batch.add(NAME, "RUNNING")
    xcoms = following.succeeds((1, OUTAGE), (1, SUCCEEDED))
    assert following.batch.submissions == []
    assert xcoms["return_value"] == found
    following = Waiting([True], alone=False)
    following.batch.add(NAME, "RUNNING", tags={})
    xcoms = following.succeeds((1, SUCCEEDED))
    assert following.batch.submissions == [REQUESTED]
    assert xcoms["return_value"] == "job-2"


def test_a_job_that_batch_refuses_when_its_turn_comes_fails_its_task_unless_that_may_pass(
    monkeypatch,
):
    following = Waiting([True])
    following.batch.failures = [client_error("ClientException")]
    assert "Batch rejected the job: An error occurred (ClientException)" in following.fails()
    monkeypatch.setattr("batchmark.aws.batch_jobs.SUBMIT_AGAIN_AFTER_SECONDS", ())
    following = Waiting([True])
    following.batch.failures = [client_error("ServerException", 500)]
    with pytest.raises(ClientError, match="ServerException"):
        following.event()
    assert following.xcoms == {}
    following = Waiting([True])
    outage = client_error("ServerException", 500)
    following.batch.list_jobs = failing(outage, then=following.batch.list_jobs)
    following.succeeds((1, SUCCEEDED))


def test_a_task_that_is_killed_before_its_turn_has_no_job_to_end():
    following = Waiting([])
    asyncio.run(following.trigger.on_kill())
    assert following.batch.terminated == []


def test_a_waiting_trigger_survives_its_serialization():
    trigger = Waiting([], on_demand=ON_DEMAND, ahead=[3, 1], alone=False).trigger
    trigger.ahead.pop()
    path, arguments = trigger.serialize()
    assert [arguments[name] for name in ("job_id", "after", "alone")] == [None, 0, False]
    assert arguments["ahead"] == [3, 1]
    assert BenchmarkJobTrigger(**arguments).serialize() == (path, arguments)
