"""Waits for a Batch job and ends its task from the triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.providers.amazon.aws.hooks.logs import AwsLogsHook
from airflow.providers.amazon.aws.triggers.batch import BatchJobTrigger
from airflow.triggers.base import TaskFailedEvent, TaskSuccessEvent, TriggerEvent

from batchmark.job_description import (
    FINISHED,
    LOG_TAIL_LINES,
    JobDescription,
    failure_message,
    log_location,
)

FAILURE_XCOM = "failure"


class BenchmarkJobTrigger(BatchJobTrigger):
    """A BatchJobTrigger that ends the task itself instead of sending it back to a worker.

    Going back is where Airflow 3.3 loses short jobs: when the scheduler reads the worker's "I
    deferred" after the task has been queued again, it takes that for the end of the second run and
    fails the task. A task that never goes back can't be mistaken.
    """

    async def run(self) -> AsyncIterator[TriggerEvent]:
        job = await self._finished_job()
        job_id: str = job["jobId"]
        if job["status"] == "SUCCEEDED":
            self.log.info("Batch job %s succeeded", job_id)
            yield TaskSuccessEvent(xcoms={"return_value": job_id})
            return
        message = failure_message(job, await self._log_tail(job))
        self.log.error(message)
        yield TaskFailedEvent(xcoms={FAILURE_XCOM: message})

    async def _finished_job(self) -> JobDescription:
        job_id = self.serialized_fields["job_id"]
        async with await self.hook().get_async_conn() as client:
            while True:
                jobs = (await client.describe_jobs(jobs=[job_id]))["jobs"]
                if not jobs:
                    return {
                        "jobId": job_id,
                        "jobName": "?",
                        "status": "FAILED",
                        "statusReason": "Batch does not know this job",
                    }
                if jobs[0]["status"] in FINISHED:
                    job: JobDescription = jobs[0]
                    return job
                await asyncio.sleep(self.waiter_delay)

    async def _log_tail(self, job: JobDescription) -> list[str]:
        location = log_location(job)
        if location is None:
            return []
        hook = AwsLogsHook(**self._hook_parameters)
        try:
            async with await hook.get_async_conn() as client:
                answer: dict[str, Any] = await client.get_log_events(
                    logGroupName=location.group,
                    logStreamName=location.stream,
                    limit=LOG_TAIL_LINES,
                    startFromHead=False,
                )
        except Exception as error:
            return [f"(the log could not be read: {error})"]
        return [event["message"] for event in answer["events"]]
