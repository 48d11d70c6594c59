"""A job that comes after others or shares an instance: when its trigger asks and submits."""

import asyncio
import itertools
from threading import Barrier, Thread
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from batchmark.aws.batch_jobs import STEPPED_BACK
from batchmark.orchestration.operators import batch_trigger, turns
from batchmark.orchestration.operators.job_watch import Answer
from batchmark.orchestration.operators.turns import EVERY_SECONDS, SOON_SECONDS
from batchmark.runs.job_outcome import JobOutcome
from tests.stand_ins.batch import FINISHED, ON_DEMAND_QUEUE, client_error
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.following import (
    CREATED,
    NAME,
    OUTAGE,
    REQUESTED,
    SUCCEEDED,
    Following,
    Waiting,
)
from tests.waiting import PATIENCE_SECONDS


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


def test_a_job_that_fails_by_its_own_error_says_so_to_those_behind_it(monkeypatch, capsys):
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
            together.wait(PATIENCE_SECONDS)
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
        return await asyncio.wait_for(asyncio.gather(ended(first), ended(second)), PATIENCE_SECONDS)

    asyncio.run(both())
    assert most == [1, 1], "each is followed alone"
    assert [each.xcoms["return_value"] in batch.jobs for each in (first, second)] == [True] * 2
    succeeded = [job["jobName"] for job in batch.jobs.values() if job["status"] == "SUCCEEDED"]
    assert sorted(succeeded) == sorted(["another-run", *names])


NOT_FREE = "because its instance did not become free within {} s: job job-1 (another-run)"
NOT_OVER = "because the previous task (map index 0) had not ended after 70 s"
LONG = {"longest_seconds": 3600}


@pytest.mark.parametrize(
    ("over", "limits", "why"),
    [
        ([True], LONG, NOT_FREE.format(3610)),
        ([True], {"deadline": CREATED + 60}, NOT_FREE.format(70)),
        # A job of another run does not take more than the task has left of its turns.
        ([False] * 5 + [True], LONG | {"latest_turn": CREATED + 60}, NOT_FREE.format(20)),
        *(([False] * 8, {limit: CREATED + 60}, NOT_OVER) for limit in ("deadline", "latest_turn")),
    ],
)
def test_a_job_that_gets_no_turn_in_time_names_the_job_or_task_in_its_way(over, limits, why):
    following = Waiting(over, **limits)
    following.batch.add("another-run", "RUNNING")
    failure = following.fails()
    assert following.batch.submissions == []
    assert why in failure
    assert ("is RUNNING in arn:queue-spot" in failure) is (why != NOT_OVER)


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


def test_a_job_that_batch_refuses_fails_its_task_unless_that_may_pass(monkeypatch):
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


def test_airflow_is_asked_until_the_trigger_before_has_ended_and_seldom():
    following = Waiting([False, False, True])
    xcoms = following.succeeds((1, SUCCEEDED))
    assert following.asked == [(0, [])] * 3
    assert following.slept == [EVERY_SECONDS] * 3  # the last time before it looks again
    assert following.batch.submissions == [REQUESTED]
    assert xcoms["job_id"] == xcoms["return_value"] == "job-1"
    # Nor does a trigger of another run, or one that must be alone, wake it.
    before = of_task(Following(alone=False), 0)
    others = of_task(Following(alone=False), 0, "another run"), of_task(Following(), 0)
    following = of_task(Waiting([False, False, True], alone=False), 1)
    following.pending = [lambda: None] * 12
    following.pending[3:3] = map(ended, others)
    following.pending += [ended(before)]
    following.event((1, SUCCEEDED))
    assert following.pending == []
    assert len(following.asked) == 3
    assert following.slept == [SOON_SECONDS] * 15
    # Nor is the end of one remembered that nobody waits for: a triggerer lives for months.
    of_task(Following(alone=False), 0).event((1, SUCCEEDED))
    following = of_task(Waiting([False, True], alone=False), 1)
    following.event((1, SUCCEEDED))
    assert sum(following.slept) == EVERY_SECONDS


def of_task(following, map_index, run_id="run"):
    of = {"dag_id": "d", "task_id": "t", "run_id": run_id, "map_index": map_index}
    following.trigger._task_instance = SimpleNamespace(**of)
    return following


def ended(following):
    """Its job's end, which is told from a thread as its event runs a loop of its own."""

    def happen():
        thread = Thread(target=following.event, args=[(1, SUCCEEDED)])
        thread.start()
        thread.join()

    return happen


def test_airflow_is_asked_the_more_seldom_the_more_tasks_come_before():
    """Hundreds may wait at a time; each is back to ten seconds before its turn comes."""
    following = Waiting(after=7, ahead=[6, 4, 0], alone=False)
    over, asked = set(), []

    async def is_over(map_index):
        asked.append((following.now - CREATED, map_index))
        return map_index in over

    following.trigger.is_over = is_over
    ends = [(0, 70), (4, 150), (6, 170), (7, 220)]  # seconds

    def happen():
        over.update(index for index, at in ends if following.now - CREATED >= at)

    following.pending = [happen] * 300
    following.event((1, SUCCEEDED))
    assert asked == [
        *((0, 7), (0, 0)),
        *((80, 7), (80, 0), (80, 4)),
        *((120, 7), (120, 4)),
        *((160, 7), (160, 4), (160, 6)),
        *((180, 7), (180, 6)),
        *((190, 7), (200, 7), (210, 7), (220, 7)),
    ]


@pytest.mark.parametrize(
    ("states", "over"),
    [
        ({}, False),  # it is not scheduled yet
        ({"run": {"run_benchmark_0": None}}, False),
        ({"run": {"run_benchmark_0": "deferred"}}, False),
        ({"run": {"run_benchmark_0": "up_for_retry"}}, False),
        ({"run": {"run_benchmark_0": "success"}}, True),
        ({"run": {"run_benchmark_0": "failed"}}, True),
        ({"run": {"run_benchmark_0": "upstream_failed"}}, True),
    ],
)
def test_a_task_is_over_when_nothing_of_it_may_still_run(states, over, monkeypatch):
    states_of = Mock(return_value=states)
    monkeypatch.setattr(turns.RuntimeTaskInstance, "get_task_states", states_of)
    following = Following(request=REQUESTED, after=4)
    assert asyncio.run(following.trigger.is_over(4)), "dag.test() has no other task under way"
    assert asyncio.run(of_task(following, 0).trigger.is_over(4)) is over
    states_of.assert_called_once_with(dag_id="d", task_ids=["t"], run_ids=["run"], map_index=4)
