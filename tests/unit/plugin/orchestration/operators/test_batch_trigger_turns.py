"""A job that shares an instance: when the trigger submits it, and when it takes it back."""

import asyncio
import itertools
from threading import Barrier, Thread
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError

from batchmark.aws.batch_jobs import STEPPED_BACK
from batchmark.orchestration.operators.batch_trigger import BenchmarkJobTrigger
from batchmark.orchestration.operators.job_watch import Answer
from batchmark.orchestration.operators.turns import EVERY_SECONDS, SOON_SECONDS
from tests.stand_ins.batch import FINISHED, ON_DEMAND_QUEUE, SPOT_QUEUE, client_error
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.following import (
    CREATED,
    NAME,
    ON_DEMAND,
    OUTAGE,
    REQUEST,
    SUCCEEDED,
    Following,
)

REQUESTED = REQUEST | {"jobQueue": SPOT_QUEUE}


def waiting(states, **arguments):
    """A trigger that is to submit its job; Airflow tells these states of the task before it."""
    following = Following(request=REQUESTED, after=0, **arguments)
    following.asked = []

    async def is_over(map_index):
        following.asked.append((map_index, list(following.batch.submissions)))
        return states.pop(0)

    following.trigger.is_over = is_over
    return following


def test_a_job_is_submitted_once_the_task_before_it_is_over():
    following = waiting([False, False, True])
    event = following.event((1, SUCCEEDED))
    assert following.asked == [(0, [])] * 3
    assert following.slept == [EVERY_SECONDS] * 3  # the last time before it looks again
    assert following.batch.submissions == [REQUESTED]
    assert event.task_instance_state == "success"
    assert event.xcoms["job_id"] == event.xcoms["return_value"] == "job-1"


def test_a_job_that_need_not_be_alone_looks_at_no_queue_and_never_steps_back():
    """As an own job, in a queue that others use all the time."""
    following = waiting([True], alone=False)
    following.batch.add("another-run", "RUNNING", createdAt=1)
    following.batch.list_jobs = None
    event = following.event((1, SUCCEEDED))
    assert event.xcoms["return_value"] == event.xcoms["job_id"] == "job-2"
    assert following.slept == []
    assert following.batch.terminated == []


def task(map_index, run_id="run"):
    fields = {"dag_id": "d", "task_id": "t", "run_id": run_id, "map_index": map_index}
    return SimpleNamespace(**fields)


def test_airflow_is_asked_seldom_until_the_trigger_before_has_ended():
    """Nor does a trigger of another run, or one that must be alone, wake it."""
    before = Following(alone=False)
    before.trigger._task_instance = task(0)
    others = [Following(alone=False), Following()]
    others[0].trigger._task_instance = task(0, "another run")
    others[1].trigger._task_instance = task(0)
    following = waiting([False, False, True], alone=False)
    following.trigger._task_instance = task(1)
    happenings = [lambda: None] * 12 + [lambda: before.event((1, SUCCEEDED))]
    for other in others:
        happenings[3:3] = [lambda other=other: other.event((1, SUCCEEDED))]
    # An event runs its own loop, so it is told from here.
    pending = while_asleep(following, *[in_a_thread(happening) for happening in happenings])
    following.event((1, SUCCEEDED))
    assert pending == []
    assert len(following.asked) == 3
    assert following.slept == [SOON_SECONDS] * 15


def in_a_thread(happening):
    def happen():
        thread = Thread(target=happening)
        thread.start()
        thread.join()

    return happen


def test_airflow_is_asked_the_more_seldom_the_more_tasks_come_before():
    """Hundreds may wait at a time; each is back to ten seconds before its turn comes."""
    following = Following(request=REQUESTED, after=7, ahead=[6, 4, 0], alone=False)
    over, asked = set(), []

    async def is_over(map_index):
        asked.append((following.now - CREATED, map_index))
        return map_index in over

    following.trigger.is_over = is_over
    ends = [(0, 70), (4, 150), (6, 170), (7, 220)]  # seconds

    def happen():
        over.update(index for index, at in ends if following.now - CREATED >= at)

    while_asleep(following, *[happen] * 300)
    following.event((1, SUCCEEDED))
    assert asked == [
        *((0, 7), (0, 0)),
        *((80, 7), (80, 0), (80, 4)),
        *((120, 7), (120, 4)),
        *((160, 7), (160, 4), (160, 6)),
        *((180, 7), (180, 6)),
        *((190, 7), (200, 7), (210, 7), (220, 7)),
    ]


def test_a_trigger_whose_predecessor_was_of_another_process_follows_all_the_same():
    following = waiting([False, True], alone=False)
    following.event((1, SUCCEEDED))
    assert sum(following.slept) == EVERY_SECONDS


def test_the_end_of_a_trigger_that_nobody_waits_for_is_not_remembered():
    """A triggerer lives for months."""
    before = Following(alone=False)
    before.trigger._task_instance = task(0)
    before.event((1, SUCCEEDED))
    following = waiting([False, True], alone=False)
    following.trigger._task_instance = task(1)
    following.event((1, SUCCEEDED))
    assert sum(following.slept) == EVERY_SECONDS


def while_asleep(following, *happenings):
    """Let these happen, one during each pause of the trigger."""
    pending, sleep = list(happenings), following.trigger.sleep

    async def sleeping(seconds):
        await sleep(seconds)
        if pending:
            pending.pop(0)()

    following.trigger.sleep = sleeping
    return pending


@pytest.mark.parametrize("status", ["SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING"])
def test_a_job_waits_for_every_live_job_of_its_instance_and_says_for_which(status, capsys):
    """As a task that was cleared while its run's last job runs, or a run of another DAG does."""
    following = waiting([True])
    other = following.batch.add("another-run", status)
    following.batch.add("another-queue", "RUNNING", ON_DEMAND_QUEUE)
    pending = while_asleep(following, lambda: None, following.ending(other))
    submissions = following.batch.submissions
    following.batch.submit_job = submit_when(following, lambda: not pending)
    event = following.event((1, SUCCEEDED))
    assert submissions == [REQUESTED]
    assert event.xcoms["job_id"] == "job-3"
    told = capsys.readouterr().out
    assert told.count("Waiting for the end of job job-1 (another-run)") == 1


def submit_when(following, condition):
    """Batch's SubmitJob, which fails the test if it is called too early."""
    submit = following.batch.submit_job

    def submit_job(**request):
        assert condition(), "another job is there"
        return submit(**request)

    return submit_job


def test_an_array_occupies_its_instance_until_its_last_child_has_ended():
    following = waiting([True])
    other = following.batch.add_array("another-run", ["RUNNABLE", "SUCCEEDED"])
    following.batch.submit_job = submit_when(
        following, lambda: following.batch.jobs[other]["status"] == "SUCCEEDED"
    )
    while_asleep(
        following,
        lambda: None,
        lambda: following.batch.change_child(other, 0, status="SUCCEEDED"),
    )
    assert following.event((1, SUCCEEDED)).task_instance_state == "success"


def with_rival(created_at, **happening_too):
    """A trigger that sees another's job only when its own is submitted."""
    following = waiting([True, True])

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
    while_asleep(following, show, lambda: None, lambda: None, following.ending("job-2"))
    event = following.event((1, SUCCEEDED))
    assert following.batch.terminated == [("job-1", STEPPED_BACK)]
    assert following.batch.submissions == [REQUESTED] * 2
    assert event.task_instance_state == "success"
    assert event.xcoms["job_ids"] == ["job-3"]
    assert event.xcoms["return_value"] == "job-3"


def test_a_job_that_stepped_back_is_not_taken_up_again_whatever_batch_says_of_its_end():
    following, show = with_rival(created_at=1)

    def end():
        following.batch.change("job-1", statusReason="Job terminated")
        following.batch.change("job-2", status="SUCCEEDED")

    while_asleep(following, show, end)
    event = following.event((1, SUCCEEDED))
    assert event.xcoms["job_ids"] == ["job-3"]


def test_a_job_that_is_found_steps_back_if_another_came_first():
    following = waiting([True])
    found = following.batch.add(NAME, "RUNNABLE")
    rival = following.batch.add("rival", "RUNNING", createdAt=1)
    while_asleep(following, lambda: None, following.ending(rival))
    event = following.event((1, SUCCEEDED))
    assert following.batch.terminated == [(found, STEPPED_BACK)]
    assert event.xcoms["job_ids"] == ["job-3"]


def test_of_two_jobs_submitted_at_once_the_oldest_stays():
    following, show = with_rival(created_at=9_795_222_700_000)
    while_asleep(following, show)
    event = following.event((1, SUCCEEDED))
    assert following.batch.terminated == []
    assert event.xcoms["return_value"] == "job-1"


def test_two_triggers_that_wait_for_one_job_both_run_theirs_one_after_the_other():
    """Both see its end in the same moment, and both submit."""
    names = [NAME, f"rival-{NAME}"]
    first = waiting([True, True])
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


def test_a_job_that_is_over_before_it_looks_again_does_not_step_back():
    following, show = with_rival(created_at=1, status="FAILED", statusReason="boom")
    while_asleep(following, show)
    event = following.event((1, {}))
    assert following.batch.terminated == []
    assert "boom" in event.xcoms["failure"]


def test_a_job_that_gets_no_turn_fails_its_task_and_names_the_job_in_its_way():
    following = waiting([True], longest_seconds=3600)
    following.batch.add("another-run", "RUNNING")
    event = following.event()
    assert event.task_instance_state == "failed"
    assert following.batch.submissions == []
    assert "now job job-1 (another-run) is RUNNING in arn:queue-spot" in event.xcoms["failure"]
    assert 3600 < sum(following.slept) <= 3600 + EVERY_SECONDS


def test_an_execution_timeout_bounds_the_wait_for_a_turn():
    following = waiting([True], deadline=CREATED + 60)
    following.batch.add("another-run", "RUNNING")
    assert "for 70 s its instance was never free" in following.event().xcoms["failure"]


@pytest.mark.parametrize("limit", ["deadline", "latest_turn"])
def test_a_task_that_waits_too_long_for_the_one_before_it_fails_and_names_it(limit):
    following = waiting([False] * 8, **{limit: CREATED + 60})
    failure = following.event().xcoms["failure"]
    assert following.batch.submissions == []
    assert "for 70 s the task before it (map index 0) was not over" in failure


def test_a_job_of_another_run_does_not_take_more_than_the_task_has_left_of_its_turns():
    following = waiting([False] * 5 + [True], latest_turn=CREATED + 60, longest_seconds=3600)
    following.batch.add("another-run", "RUNNING")
    failure = following.event().xcoms["failure"]
    assert "for 20 s its instance was never free; now job job-1 (another-run)" in failure


def test_a_batch_that_does_not_answer_is_asked_again_for_the_jobs_of_its_queue():
    following = waiting([True])
    outage = client_error("ServerException", 500)
    following.batch.list_jobs = failing(outage, then=following.batch.list_jobs)
    event = following.event((1, SUCCEEDED))
    assert event.task_instance_state == "success"


def test_the_next_triggerer_finds_the_job_that_the_one_before_submitted():
    following = waiting([True])
    found = following.batch.add(NAME, "RUNNING")
    event = following.event((1, OUTAGE), (1, SUCCEEDED))
    assert following.batch.submissions == []
    assert event.xcoms["return_value"] == found


def test_a_job_of_its_name_that_somebody_else_submitted_is_not_its_own():
    following = waiting([True], alone=False)
    following.batch.add(NAME, "RUNNING", tags={})
    event = following.event((1, SUCCEEDED))
    assert following.batch.submissions == [REQUESTED]
    assert event.xcoms["return_value"] == "job-2"


def test_a_job_that_batch_refuses_when_its_turn_comes_fails_its_task_with_the_reason():
    following = waiting([True])
    following.batch.failures = [client_error("ClientException")]
    event = following.event()
    assert event.task_instance_state == "failed"
    assert "Batch refuses the job: An error occurred (ClientException)" in event.xcoms["failure"]


def test_a_submission_that_only_failed_now_is_left_to_the_next_try(monkeypatch):
    monkeypatch.setattr("batchmark.aws.batch_jobs.SUBMIT_AGAIN_AFTER_SECONDS", ())
    following = waiting([True])
    following.batch.failures = [client_error("ServerException", 500)]
    with pytest.raises(ClientError, match="ServerException"):
        following.event()
    assert following.xcoms == {}


def test_a_task_that_is_killed_before_its_turn_has_no_job_to_end():
    following = waiting([])
    asyncio.run(following.trigger.on_kill())
    assert following.batch.terminated == []


def test_a_waiting_trigger_survives_its_serialization():
    trigger = waiting([], on_demand=ON_DEMAND, ahead=[3, 1], alone=False).trigger
    trigger.ahead.pop()
    path, arguments = trigger.serialize()
    assert [arguments[name] for name in ("job_id", "after", "alone")] == [None, 0, False]
    assert arguments["ahead"] == [3, 1]
    assert BenchmarkJobTrigger(**arguments).serialize() == (path, arguments)


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
    asked = []

    def get_task_states(**arguments):
        asked.append(arguments)
        return states

    monkeypatch.setattr(
        "batchmark.orchestration.operators.turns.RuntimeTaskInstance.get_task_states",
        get_task_states,
    )
    trigger = Following(request=REQUESTED, after=4).trigger
    assert asyncio.run(trigger.is_over(4)), "dag.test() has no other task under way"
    trigger._task_instance = type("TI", (), {"dag_id": "d", "task_id": "t", "run_id": "run"})
    assert asyncio.run(trigger.is_over(4)) is over
    assert asked == [{"dag_id": "d", "task_ids": ["t"], "run_ids": ["run"], "map_index": 4}]
