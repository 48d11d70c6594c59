"""Which jobs an On-Demand job follows after Spot took the last host."""

import asyncio
import threading

import pytest

from batchmark.aws.batch_jobs import KILLED
from tests.stand_ins.batch import ON_DEMAND_QUEUE, RECLAIMED, SPOT_QUEUE, client_error
from tests.stand_ins.following import (
    CREATED,
    LOST_HOST,
    NAME,
    ON_DEMAND,
    RUNNING,
    SUCCEEDED,
    Following,
)
from tests.waiting import wait_for


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


def test_a_refused_on_demand_job_is_reported_with_the_spot_jobs_failure():
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


def test_a_job_terminated_at_a_limit_is_not_followed_by_another():
    following = Following(on_demand=ON_DEMAND, deadline=CREATED + 60)
    event = following.event((61, RUNNING), (2, LOST_HOST))
    assert event.task_instance_state == "failed"
    assert following.batch.submissions == []


def test_an_on_demand_job_whose_worker_was_killed_is_submitted_again():
    following = Following(on_demand=ON_DEMAND)
    following.batch.add(NAME, "FAILED", ON_DEMAND_QUEUE, statusReason=KILLED)
    event = following.event((9, LOST_HOST), (2, SUCCEEDED))
    assert following.batch.submissions == [ON_DEMAND]
    assert event.xcoms["job_ids"] == ["job-1", "job-3"]


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
        ending = asyncio.create_task(following.trigger.on_kill())
        await asyncio.sleep(0)
        ending.cancel()  # as Airflow does a second later
        await asyncio.wait([ending])
        may_go_on.set()
        await asyncio.to_thread(wait_for, lambda: following.batch.terminated, "termination", 5)

    asyncio.run(kill())
    assert [job_id for job_id, _ in following.batch.terminated] == ["job-2"]
