"""Waits for a Batch job and ends its task from the triggerer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.providers.amazon.aws.hooks.logs import AwsLogsHook
from airflow.providers.amazon.aws.triggers.batch import BatchJobTrigger
from airflow.triggers.base import TaskFailedEvent, TaskSuccessEvent, TriggerEvent
from botocore.exceptions import BotoCoreError, ClientError

from batchmark.job_description import (
    FINISHED,
    LOG_TAIL_LINES,
    JobDescription,
    failure_message,
    log_location,
)

FAILURE_XCOM = "failure"
# After the deadline, how long to wait for the end of a job that was told to stop.
STOP_SECONDS = 300


class BenchmarkJobTrigger(BatchJobTrigger):
    """A BatchJobTrigger that ends the task itself instead of sending it back to a worker.

    Going back is where Airflow 3.3 loses short jobs: when the scheduler reads the worker's "I
    deferred" after the task has been queued again, it takes that for the end of the second run and
    fails the task. A task that never goes back can't be mistaken.

    Args:
        deadline: seconds since the epoch after which the job is terminated; None for never.
    """

    def __init__(self, *, job_id: str, deadline: float | None = None, **kwargs: Any) -> None:
        super().__init__(job_id=job_id, **kwargs)
        self.job_id = job_id
        self.deadline = deadline
        self.serialized_fields["deadline"] = deadline

    async def run(self) -> AsyncIterator[TriggerEvent]:
        job = await self._finished_job()
        if job["status"] == "SUCCEEDED":
            self.log.info("Batch job %s succeeded", self.job_id)
            yield TaskSuccessEvent(xcoms={"return_value": self.job_id})
            return
        message = failure_message(job, await self._log_tail(job))
        self.log.error(message)
        yield TaskFailedEvent(xcoms={FAILURE_XCOM: message})

    async def on_kill(self) -> None:
        """End the job when a user marks or clears its task: nobody waits for it any more."""
        async with await self.hook().get_async_conn() as client:
            await self._terminate(client, "The Airflow task was ended by a user")

    async def _finished_job(self) -> JobDescription:
        """Poll until the job has ended; failing calls count as no answer until the deadline."""
        job: JobDescription = {"jobId": self.job_id, "jobName": "?", "status": "UNKNOWN"}
        is_stopped = False
        async with await self.hook().get_async_conn() as client:
            while True:
                try:
                    answer = (await client.describe_jobs(jobs=[self.job_id]))["jobs"]
                    if not answer:
                        return job | {"statusReason": "Batch does not know this job"}
                    job = answer[0]
                    if job["status"] in FINISHED:
                        return job
                    if self._is_past(0) and not is_stopped:
                        await self._terminate(client, "It did not end before Batchmark's deadline")
                        is_stopped = True
                except (BotoCoreError, ClientError) as error:
                    self.log.warning("Batch gave no answer, asking again: %s", error)
                if self._is_past(STOP_SECONDS):
                    return job | {"statusReason": "It did not end when it was told to"}
                await asyncio.sleep(self.waiter_delay)

    def _is_past(self, seconds: float) -> bool:
        return self.deadline is not None and time.time() > self.deadline + seconds

    async def _terminate(self, client: Any, reason: str) -> None:
        self.log.warning("Terminating Batch job %s: %s", self.job_id, reason)
        await client.terminate_job(jobId=self.job_id, reason=reason)

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
        except (BotoCoreError, ClientError) as error:  # the failure itself must still be told
            return [f"(the log could not be read: {error})"]
        return [event["message"] for event in answer["events"]]
