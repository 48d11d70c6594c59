"""Batchmark's trigger against the local cloud, as a triggerer runs it."""

from __future__ import annotations

import asyncio
import time

import pytest

from batchmark.triggers.batch import FAILURE_XCOM, BenchmarkJobTrigger


@pytest.fixture
def trigger(cloud, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", cloud.endpoint_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")

    def build(job_id, deadline=None):
        made = BenchmarkJobTrigger(
            job_id=job_id,
            deadline=deadline,
            waiter_delay=0.1,
            aws_conn_id=None,
            region_name="us-east-1",
        )
        path, arguments = made.serialize()
        assert path == "batchmark.triggers.batch.BenchmarkJobTrigger"
        return BenchmarkJobTrigger(**arguments)

    return build


def event_of(trigger):
    async def events():
        return [event async for event in trigger.run()]

    (event,) = asyncio.run(events())
    return event


def test_success_ends_the_task_with_the_job_id(cloud, trigger):
    job_id = cloud.submit(cloud.define(["true"]))
    event = event_of(trigger(job_id))
    assert event.task_instance_state == "success"
    assert event.xcoms == {"return_value": job_id}


def test_failure_ends_the_task_with_its_reason_and_last_lines(cloud, trigger):
    job_id = cloud.submit(cloud.define(["sh", "-c", "echo reading; echo boom; exit 3"]))
    event = event_of(trigger(job_id))
    assert event.task_instance_state == "failed"
    first, *_, last = event.xcoms[FAILURE_XCOM].splitlines()
    assert "exit code 3" in first
    assert last == "boom"


def test_a_job_past_its_deadline_is_terminated(cloud, trigger):
    job_id = cloud.submit(cloud.define(["sleep", "600"]))
    event = event_of(trigger(job_id, deadline=time.time() - 1))
    assert event.task_instance_state == "failed"
    assert "before Batchmark's deadline" in event.xcoms[FAILURE_XCOM]


def test_killing_the_task_ends_its_job(cloud, trigger):
    job_id = cloud.submit(cloud.define(["sleep", "600"]))
    asyncio.run(trigger(job_id).on_kill())
    job = cloud.finish(job_id)
    assert job["status"] == "FAILED"
    assert job["statusReason"] == "The Airflow task was ended by a user"


def test_an_unknown_job_fails_the_task(trigger, cloud):
    assert cloud.process.poll() is None
    event = event_of(trigger("00000000-0000-0000-0000-000000000000"))
    assert "Batch does not know this job" in event.xcoms[FAILURE_XCOM]
