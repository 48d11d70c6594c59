"""The compute environment that a job starts in."""

import pytest

from local_cloud.faults.kinds import InvalidEnvironment, NoCapacity
from local_cloud.faults.under_way import UNDER_WAY, Active
from tests.unit.local_cloud.conftest import of_nodes


@pytest.mark.parametrize(
    "fault",
    [
        InvalidEnvironment(kind="invalid_environment", compute_environment="first"),
        NoCapacity(kind="no_capacity", compute_environment="first"),
    ],
)
def test_a_job_goes_to_the_next_environment_of_its_queue(batch, monkeypatch, fault):
    for name in ("first", "second"):
        batch.environment(name)
    order = [{"order": n, "computeEnvironment": name} for n, name in enumerate(("first", "second"))]
    batch.queue(computeEnvironmentOrder=order)
    batch.define()
    monkeypatch.setitem(UNDER_WAY, "1", Active("1", fault))
    job = batch.scheduler_job(batch.submit())
    assert job.attempts[0].compute_environment == "second"


@pytest.mark.parametrize("kind", ["SPOT", "FARGATE"])
def test_nodes_wait_for_ever_elsewhere_than_on_on_demand_instances(batch, kind):
    batch.environment(kind=kind)
    batch.queue()
    batch.call("RegisterJobDefinition", **of_nodes())
    waiting = batch.submit()
    batch.define("single")
    assert batch.finish(batch.submit(definition="single"))["status"] == "SUCCEEDED"
    job = batch.describe(waiting)
    assert (job["status"], job.get("statusReason")) == ("RUNNABLE", None)
