"""The compute environment that a job starts in."""

import pytest

from local_cloud.faults.under_way import UNDER_WAY
from tests.stand_ins.local_batch import requirements
from tests.unit.local_cloud.conftest import of_nodes


@pytest.mark.parametrize("kind", ["invalid_environment", "no_capacity"])
def test_a_job_goes_to_the_next_environment_of_its_queue(batch, begin, kind):
    for name in ("first", "second"):
        batch.environment(name)
    order = [{"order": n, "computeEnvironment": name} for n, name in enumerate(("first", "second"))]
    batch.queue(computeEnvironmentOrder=order)
    batch.define()
    begin(kind, compute_environment="first")
    job = batch.scheduler_job(batch.submit())
    assert job.attempts[0].compute_environment == "second"


def test_jobs_wait_as_long_as_all_environments_are_invalid(batch, queue, begin):
    blocker = batch.submit(containerOverrides={"resourceRequirements": requirements(VCPU=4)})
    waiting = batch.submit("waiting")
    begin("invalid_environment", compute_environment="*", reason="why")
    for _ in range(2):
        batch.scheduler.environments_changed()
    (environment,) = batch.call("DescribeComputeEnvironments")["computeEnvironments"]
    assert (environment["status"], environment["statusReason"]) == ("INVALID", "why")
    batch.finish(blocker)
    job = batch.describe(waiting)
    assert job["status"] == "RUNNABLE"
    assert job["statusReason"].startswith("ACTION_REQUIRED - CE(s) associated with the job")
    UNDER_WAY.clear()
    batch.scheduler.environments_changed()
    assert batch.finish(waiting)["status"] == "SUCCEEDED"


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
