"""Which jobs an On-Demand job follows after Spot took the last host."""

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
from tests.stand_ins.killed_triggers import kill_during


def test_after_the_last_spot_reclaim_one_on_demand_job_follows():
    following = Following(on_demand=ON_DEMAND)
    xcoms = following.succeeds((9, LOST_HOST), (2, RUNNING), (9, SUCCEEDED))
    assert following.batch.submissions == [ON_DEMAND]
    assert ("batch", 1) in following.trigger.clients.asked, "SubmitJob is sent once"
    assert xcoms["job_id"] == xcoms["return_value"] == "job-2"
    assert xcoms["job_ids"] == ["job-1", "job-2"]


def test_a_restarted_trigger_finds_the_on_demand_job():
    following = Following(on_demand=ON_DEMAND)
    following.batch.add(NAME, "RUNNING", ON_DEMAND_QUEUE)
    following.batch.add(f"{NAME}0", "RUNNING", ON_DEMAND_QUEUE)
    xcoms = following.succeeds((9, LOST_HOST), (2, SUCCEEDED))
    assert following.batch.submissions == []
    assert xcoms["job_ids"] == ["job-1", "job-2"]


def test_an_on_demand_job_that_loses_its_host_is_not_followed_by_another():
    following = Following(on_demand=ON_DEMAND)
    following.fails((9, LOST_HOST), (2, LOST_HOST))
    assert len(following.batch.submissions) == 1


def test_a_refused_on_demand_job_is_reported_with_the_spot_jobs_failure():
    following = Following(on_demand=ON_DEMAND)
    following.batch.failures = [client_error("AccessDeniedException", 403)]
    failure = following.fails((9, LOST_HOST))
    assert f"status reason: {RECLAIMED} no On-Demand job could be submitted: " in failure
    assert "AccessDeniedException" in failure


@pytest.mark.parametrize(
    ("on_demand", "end"),
    [
        (None, LOST_HOST),
        (ON_DEMAND | {"jobQueue": SPOT_QUEUE}, LOST_HOST),
        (ON_DEMAND, {"status": "FAILED", "statusReason": "Essential container in task exited"}),
    ],
    ids=["Spot alone", "the same queue", "it failed by itself"],
)
def test_nothing_else_goes_on_demand(on_demand, end):
    following = Following(on_demand=on_demand)
    following.fails((9, end))
    assert following.batch.submissions == []


def test_a_job_terminated_at_a_limit_is_not_followed_by_another():
    following = Following(on_demand=ON_DEMAND, deadline=CREATED + 60)
    following.fails((61, RUNNING), (2, LOST_HOST))
    assert following.batch.submissions == []


def test_an_on_demand_job_whose_worker_was_killed_is_submitted_again():
    following = Following(on_demand=ON_DEMAND)
    following.batch.add(NAME, "FAILED", ON_DEMAND_QUEUE, statusReason=KILLED)
    xcoms = following.succeeds((9, LOST_HOST), (2, SUCCEEDED))
    assert following.batch.submissions == [ON_DEMAND]
    assert xcoms["job_ids"] == ["job-1", "job-3"]


def test_killing_the_task_while_it_submits_ends_the_new_job():
    following = Following(on_demand=ON_DEMAND)
    following.script = [(9, LOST_HOST)]
    kill_during(
        following.trigger, following.batch, "submit_job", lambda: following.batch.terminated
    )
    assert [job_id for job_id, _ in following.batch.terminated] == ["job-2"]
