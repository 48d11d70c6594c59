"""Batchmark's trigger against the local cloud, as a triggerer runs it."""

import asyncio
from types import SimpleNamespace

import httpx
import pytest

from batchmark.orchestration.operators.batch_trigger import BenchmarkJobTrigger
from batchmark.orchestration.xcom import FAILURE_XCOM
from tests.e2e.local_cloud.operator_runs import reaching


@pytest.fixture
def trigger(cloud):
    def build(job_id, **limits):
        limits |= {"waiter_delay": 0.1, "aws_conn_id": None, "region_name": "us-east-1"}
        made = BenchmarkJobTrigger(job_id=job_id, **limits)
        path, arguments = made.serialize()
        assert path == "batchmark.orchestration.operators.batch_trigger.BenchmarkJobTrigger"
        return BenchmarkJobTrigger(**arguments)

    with reaching(cloud):
        yield build


def event_of(trigger):
    return asyncio.run(outcome_of(trigger))


async def outcome_of(trigger):
    """The task's end and its XComs, which a triggerer would have pushed."""
    xcoms = {}

    async def push_xcoms(more):
        xcoms.update(more)

    trigger.push_xcoms = push_xcoms
    (event,) = [event async for event in trigger.run()]
    return SimpleNamespace(task_instance_state=event.task_instance_state, xcoms=xcoms)


def test_success_ends_the_task_with_the_job_id(cloud, trigger):
    job_id = cloud.submit(cloud.define(["true"]))
    event = event_of(trigger(job_id))
    assert event.task_instance_state == "success"
    assert event.xcoms["return_value"] == job_id
    assert event.xcoms["timing"]["attempts"][0]["exit_code"] == 0


def test_the_log_page_of_a_job_without_a_log_shows_its_state(cloud, gate):
    first = cloud.shell(gate.script)
    waits = cloud.submit(cloud.define(["true"]), dependsOn=[{"jobId": first}])
    page = httpx.get(f"{cloud.endpoint_url}/local-cloud/jobs/{waits}/log")
    assert page.text == f"Job {waits} is PENDING and has no log yet.\n"
    missing = httpx.get(f"{cloud.endpoint_url}/local-cloud/jobs/none/log")
    assert (missing.status_code, missing.text) == (404, "The local cloud has no job none\n")


def test_failure_ends_the_task_with_its_reason_its_last_lines_and_a_link_to_them(cloud, trigger):
    job_id = cloud.submit(cloud.define(["sh", "-c", "echo reading; echo boom; exit 3"]))
    event = event_of(trigger(job_id))
    assert event.task_instance_state == "failed"
    first, *_, last = event.xcoms[FAILURE_XCOM].splitlines()
    assert "exit code 3" in first
    assert last == "boom"
    page = httpx.get(event.xcoms["_link_JobLogLink"])
    assert page.text == f"Job {job_id} is FAILED, attempt 1\nreading\nboom\n"


def test_a_job_that_stays_runnable_is_ended_with_a_diagnosis(cloud, trigger, gate):
    cloud.shell(gate.script)  # waiting for it would not help
    job_id = cloud.submit(cloud.define(["true"], gpus=64))
    event = event_of(trigger(job_id, runnable_seconds=0.5))
    assert event.task_instance_state == "failed"
    assert "status reason: It was RUNNABLE for more than 0.5 s. " in event.xcoms[FAILURE_XCOM]
    assert cloud.finish(job_id)["status"] == "FAILED"


def test_after_the_last_reclaim_the_job_runs_in_the_on_demand_queue(cloud, trigger, faults):
    at_once = {"notice_seconds": 0, "shutdown_seconds": 0.1}
    faults(kind="spot_interruption", job_name="name-g0", times=1, **at_once)
    spot = cloud.submit(cloud.define(["sleep", "600"]), jobName="name-g0")
    on_demand = {
        "jobName": "name-g0",
        "jobQueue": cloud.create_queue(),
        "jobDefinition": cloud.define(["true"]),
    }
    event = event_of(trigger(spot, on_demand=on_demand))
    assert event.task_instance_state == "success"
    assert event.xcoms["job_ids"] == [spot, event.xcoms["job_id"]]


def test_twenty_jobs_are_watched_together(cloud, trigger):
    definition = cloud.define(["true"])
    job_ids = [cloud.submit(definition) for _ in range(20)]

    async def all_of_them():
        return await asyncio.gather(*(outcome_of(trigger(job_id)) for job_id in job_ids))

    events = asyncio.run(all_of_them())
    assert [event.xcoms["return_value"] for event in events] == job_ids
