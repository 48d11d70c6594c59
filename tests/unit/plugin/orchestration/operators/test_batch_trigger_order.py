"""A job that comes after another task's: when its trigger asks Airflow whether that is over."""

import asyncio
from threading import Thread
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from batchmark.orchestration.operators import turns
from batchmark.orchestration.operators.turns import EVERY_SECONDS, SOON_SECONDS
from tests.stand_ins.following import CREATED, REQUESTED, SUCCEEDED, Following, Waiting


def test_a_job_is_submitted_once_the_task_before_it_is_over():
    following = Waiting([False, False, True])
    xcoms = following.succeeds((1, SUCCEEDED))
    assert following.asked == [(0, [])] * 3
    assert following.slept == [EVERY_SECONDS] * 3  # the last time before it looks again
    assert following.batch.submissions == [REQUESTED]
    assert xcoms["job_id"] == xcoms["return_value"] == "job-1"


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


def test_airflow_is_asked_seldom_until_the_trigger_before_has_ended():
    """Nor does a trigger of another run, or one that must be alone, wake it."""
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
    # A triggerer lives for months.
    of_task(Following(alone=False), 0).event((1, SUCCEEDED))
    following = of_task(Waiting([False, True], alone=False), 1)
    following.event((1, SUCCEEDED))
    assert sum(following.slept) == EVERY_SECONDS


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


@pytest.mark.parametrize("limit", ["deadline", "latest_turn"])
def test_a_task_that_waits_too_long_for_the_one_before_it_fails_and_names_it(limit):
    following = Waiting([False] * 8, **{limit: CREATED + 60})
    failure = following.fails()
    assert following.batch.submissions == []
    assert "because the previous task (map index 0) had not ended after 70 s" in failure


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
