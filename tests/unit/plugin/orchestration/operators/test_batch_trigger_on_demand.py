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


def test_after_the_last_spot_reclaim_one_on_demand_job_follows_or_its_refusal_is_told():
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


def test_a_restarted_trigger_finds_the_on_demand_job_unless_its_worker_was_killed():
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


def test_killing_the_task_while_it_submits_ends_the_new_job():
    following = Following(on_demand=ON_DEMAND)
    following.script = [(9, LOST_HOST)]
    kill_during(
        following.trigger, following.batch, "submit_job", lambda: following.batch.terminated
    )
    assert [job_id for job_id, _ in following.batch.terminated] == ["job-2"]
