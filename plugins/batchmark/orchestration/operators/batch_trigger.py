"""The trigger that watches a Batch job and ends its task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from typing import Any

from airflow.providers.amazon.aws.triggers.batch import BatchJobTrigger
from airflow.triggers.base import TaskFailedEvent, TaskSkippedEvent, TaskSuccessEvent, TriggerEvent
from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.batch_jobs import (
    STEPPED_BACK,
    is_passing,
    is_queue_at_work,
    list_jobs,
    submit_job,
    terminate_job,
    was_withdrawn,
    with_installation_tag,
)
from batchmark.aws.job_description import JobDescription, is_reclaimed
from batchmark.aws.job_parts import first_child
from batchmark.core.names import INSTALLATION_TAG
from batchmark.orchestration.aws_clients import AwsAccess, AwsClients
from batchmark.orchestration.links import JobLogLink, JobResultLink, job_log_url, result_url
from batchmark.orchestration.operators.ending_trigger import EndsItsTask, run_to_completion
from batchmark.orchestration.operators.job_progress import (
    STOP_SECONDS,
    ExceededLimit,
    JobOrder,
    JobProgress,
)
from batchmark.orchestration.operators.job_watch import JobWatch, shared_watch
from batchmark.orchestration.operators.log_progress import LogProgress
from batchmark.orchestration.operators.own_job_hosts import HostMemory
from batchmark.orchestration.operators.turns import (
    EVERY_SECONDS,
    NotRunError,
    NotSubmittedError,
    WaitsForItsTurn,
    is_behind_others,
)
from batchmark.orchestration.xcom import (
    FAILURE_XCOM,
    JOB_ID_XCOM,
    JOB_IDS_XCOM,
    NOT_RUN_XCOM,
    OWN_ERROR_XCOM,
    TIMING_XCOM,
)
from batchmark.runs.job_outcome import JobOutcome, outcome
from batchmark.runs.result_documents import ExpectedDocument

# How long to retry while S3 can't be read.
DOCUMENT_SECONDS = 600
UNREADABLE = "The result document can't be read at the moment."
# How long ending a task may take once its job has exceeded its last limit.
ENDING_SECONDS = STOP_SECONDS + DOCUMENT_SECONDS + 300
# A diagnosis makes many slow calls; a hundred stuck jobs must not occupy all threads.
_DIAGNOSES = ThreadPoolExecutor(max_workers=2, thread_name_prefix="diagnosis")


class BenchmarkJobTrigger(EndsItsTask, WaitsForItsTurn, BatchJobTrigger):
    """A BatchJobTrigger that ends its task itself instead of returning it to a worker.

    Airflow 3.3 can lose short jobs in that step: if the scheduler reads the worker's "deferred"
    message only after the task was queued again, it mistakes the message for the end of the second
    run and fails the task. A task that never returns to a worker is safe.

    If a triggerer dies, another one runs this trigger again with the same arguments.

    Args:
        job_id: the job to watch; None if it has not been submitted yet.
        kwargs: arguments for BatchJobTrigger, and the fields of JobOrder.
    """

    def __init__(self, *, job_id: str | None, **kwargs: Any) -> None:
        names = [field.name for field in fields(JobOrder) if field.name in kwargs]
        self.order = JobOrder(**{name: kwargs.pop(name) for name in names})
        super().__init__(job_id=job_id, **kwargs)
        self.serialized_fields |= vars(self.order)
        self.ahead = list(self.order.ahead)
        self.job_ids = [*self.order.earlier_job_ids, *([job_id] if job_id else [])]
        self.clients = AwsClients.shared(AwsAccess.of(self))
        self.watch: JobWatch | None = None
        self.clock: Callable[[], float] = time.time
        self.sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
        self._submission: asyncio.Task[str] | None = None
        self._hosts = HostMemory()
        self._stepped_back: set[str] = set()  # ids; Batch may tell other reasons for their ends
        # Both queues use the same On-Demand instances.
        own = [self.order.on_demand["jobQueue"]] if self.order.on_demand else []
        self._other_queues: list[str] = [*own, *self.order.queues_of_same_quota]

    async def run(self) -> AsyncIterator[TriggerEvent]:
        if not self.job_ids:
            try:
                await self._submit_in_turn(self.order.request or {})
            except NotSubmittedError as error:
                failure = str(error)
                self.log.error(failure)  # noqa: TRY400, as a refusal needs no traceback
                await self.push_xcoms({FAILURE_XCOM: failure})
                self.tell_end()
                yield TaskFailedEvent()
                return
            except NotRunError as error:
                self.log.warning(
                    "%s. Once the cause is fixed, clear the task with map index %s and this one",
                    error,
                    self.order.first,
                )
                await self.push_xcoms({NOT_RUN_XCOM: str(error)})
                self.tell_end()
                yield TaskSkippedEvent()
                return
        progress = await self._follow(self.job_ids[-1])
        if goes_on_demand(progress.job, self.order.on_demand) and not progress.is_stopping:
            try:
                job_id = await self._submit_on_demand(progress.job)
            except (BotoCoreError, ClientError) as error:
                progress.add_to_reason(f"no On-Demand job could be submitted: {error}")
            else:
                progress = await self._follow(job_id)
        elif progress.was_cancelled_as_stuck:
            await self._diagnose(progress)
            progress.add_to_reason(str(progress.diagnosis))
        job, end = progress.job, await self._outcome(progress)
        self.tell_end()
        xcoms = {
            TIMING_XCOM: end.timing,
            JobLogLink().xcom_key: await asyncio.to_thread(
                job_log_url, self.clients("batch"), job["jobId"], job
            ),
        }
        if self.order.document:
            prefix = self.order.document["prefix"]
            xcoms[JobResultLink().xcom_key] = result_url(prefix, first_child(job)["jobId"])
        if len(self.job_ids) > 1:
            xcoms |= {JOB_ID_XCOM: job["jobId"], JOB_IDS_XCOM: self.job_ids}
        if end.failure is None:
            self.log.info("Batch job %s succeeded", job["jobId"])
            await self.push_xcoms({**xcoms, "return_value": job["jobId"]})
            yield TaskSuccessEvent()
        else:
            # The full text is logged where the task ends: in its next try.
            self.log.error(end.failure.partition("\n")[0])
            if end.own_error:
                xcoms[OWN_ERROR_XCOM] = end.own_error
            await self.push_xcoms({**xcoms, FAILURE_XCOM: end.failure})
            yield TaskFailedEvent()

    async def on_kill(self) -> None:
        """Terminate the job when a user marks or clears its task."""
        if self.job_ids or self._submission:
            await run_to_completion(self._end_job())

    async def _end_job(self) -> None:
        job_id = await self._submission if self._submission else self.job_ids[-1]
        await asyncio.to_thread(self._terminate, job_id, "The Airflow task was ended by a user")

    async def _follow(self, job_id: str) -> JobProgress:
        """Watch a job until it ends or we give up on it."""
        self.watch = self.watch or shared_watch(self.clients, self.waiter_delay)
        progress = JobProgress(job_id, self.order, self.clock())
        told = LogProgress(lambda: self.clients("logs", attempts=1), self.log.info)
        problem = None
        while True:
            before, had_problem = progress.job["status"], problem
            job, problem = answer = await self.watch.next(job_id)
            progress.update(answer, self.clock())
            if job and job["status"] != before:
                self.log.info("Batch job %s is %s", job_id, job["status"])
            if problem and not had_problem:
                self.log.warning("Batch did not respond; retrying: %s", problem)
            if progress.ended():
                return progress
            if job and job["status"] == "RUNNING":
                if self.order.document and self.order.document.get("own_job"):
                    self._hosts.look(self.clients, job)
                await told.look(job, self.clock())
            exceeded = progress.exceeded_limit()
            if exceeded and not progress.is_stopping:
                await self._stop(progress, exceeded)

    async def _stop(self, progress: JobProgress, exceeded: ExceededLimit) -> None:
        """Terminate a job; diagnose a stuck one first, and terminate it only if it stays stuck."""
        reason = exceeded.reason
        if exceeded.is_stuck:
            if progress.diagnosis is None:
                await self._diagnose(progress)
                return
            reason = f"{reason}. {progress.diagnosis}"
        try:
            await asyncio.to_thread(self._terminate, progress.job["jobId"], reason)
        except (BotoCoreError, ClientError) as error:
            self.log.warning("The job could not be terminated; retrying: %s", error)
            progress.stop(reason, is_terminated=False)
        else:
            progress.stop(reason, is_terminated=True)

    async def _diagnose(self, progress: JobProgress) -> None:
        """Diagnose why a job isn't starting, unless it might just be waiting for other jobs."""
        job = progress.job
        queues = [job["jobQueue"], *self._other_queues]
        try:
            if progress.may_wait_for_others and await asyncio.to_thread(
                is_queue_at_work, self.clients("batch"), queues, but=job["jobId"]
            ):
                progress.restart_wait()
                return
        except (BotoCoreError, ClientError) as error:
            self.log.warning("Can't tell whether the queue is busy: %s", error)
            if is_passing(error):
                return
        try:
            loop = asyncio.get_running_loop()
            progress.diagnosis = await loop.run_in_executor(_DIAGNOSES, self.diagnosis, job)
        except Exception as error:  # a failed diagnosis must not keep the job running
            self.log.exception("The diagnosis failed")
            progress.diagnosis = f"Its diagnosis failed: {error!r}"

    def diagnosis(self, job: JobDescription) -> str:
        """Diagnose why a job isn't starting; this takes many calls to AWS."""
        from batchmark.checks.diagnosis.diagnose import diagnose

        result = diagnose(
            self.clients,
            queue=job["jobQueue"],
            job=job,
            events_log_group=self.order.events_log_group,
            now=datetime.now(UTC),
        )
        return result.message()

    def _terminate(self, job_id: str, reason: str) -> None:
        terminate_job(self.clients("batch"), job_id, reason)

    async def _submit_in_turn(self, request: dict[str, Any]) -> None:
        """Submit the job once the previous task is over and, if `alone`, the queue is empty.

        If several such jobs are submitted at once, all but the oldest are withdrawn to wait again.
        """
        found = await asyncio.to_thread(self._find, request)
        while True:
            if not found:
                await self.wait_for_turn(request["jobQueue"])
            try:
                job_id = await self._submit(request)
            except ClientError as error:
                if is_passing(error):
                    raise
                raise NotSubmittedError(f"Batch rejected the job: {error}") from error
            if not self.order.alone:
                break
            await self.sleep(EVERY_SECONDS)  # ListJobs may show a job late
            if not is_behind_others(job_id, await self.live_jobs(request["jobQueue"])):
                break
            await self.insist(self._terminate, job_id, STEPPED_BACK)
            self._stepped_back.add(job_id)
            found, self.job_ids, self._submission = None, [], None
        self.log.info("The job's turn has come; submitted job %s as %s", job_id, request["jobName"])
        await self.push_xcoms(
            {
                JOB_ID_XCOM: job_id,
                JOB_IDS_XCOM: self.job_ids,
                JobLogLink().xcom_key: job_log_url(self.clients("batch"), job_id),
            }
        )

    async def _submit(self, request: dict[str, Any]) -> str:
        self._submission = asyncio.create_task(asyncio.to_thread(self._find_or_submit, request))
        # Shielded, as on_kill needs the id of a job that is being submitted.
        job_id = await asyncio.shield(self._submission)
        self.job_ids.append(job_id)
        return job_id

    async def _submit_on_demand(self, spot_job: JobDescription) -> str:
        self.log.warning(
            "Job %s lost its host during its last attempt (%s); an On-Demand job will replace it",
            spot_job["jobId"],
            spot_job.get("statusReason"),
        )
        job_id = await self._submit(self.order.on_demand or {})
        self._other_queues.append(spot_job["jobQueue"])
        self.log.info("Submitted On-Demand job %s", job_id)
        return job_id

    def _find_or_submit(self, request: dict[str, Any]) -> str:
        find = partial(self._find, request)
        return find() or submit_job(self.clients("batch", attempts=1), request, find)

    def _find(self, request: dict[str, Any]) -> str | None:
        batch = self.clients("batch")
        listed = list_jobs(batch, [request["jobQueue"]], request["jobName"])
        tag = request.get("tags", {}).get(INSTALLATION_TAG)
        ids = (
            str(job["jobId"])
            for job in with_installation_tag(batch, not_withdrawn(listed, request), tag)
        )
        return next((job_id for job_id in ids if job_id not in self._stepped_back), None)

    async def _outcome(self, progress: JobProgress) -> JobOutcome:
        """Judge the job, retrying for up to DOCUMENT_SECONDS if S3 can't be read."""
        expected = ExpectedDocument(**self.order.document) if self.order.document else None
        began = self.clock()
        host = await self._hosts.host(progress.job)
        judge = partial(outcome, self.clients, progress.job, expected, progress.first_seen, host)
        while True:
            try:
                return await asyncio.to_thread(judge)
            except (BotoCoreError, ClientError) as error:
                if self.clock() - began > DOCUMENT_SECONDS:
                    raise
                self.log.warning("%s Retrying: %s", UNREADABLE, error)
            await self.sleep(self.waiter_delay)


def goes_on_demand(job: JobDescription, on_demand: dict[str, Any] | None) -> bool:
    """Return whether an On-Demand job should follow because the last attempt lost its host."""
    return on_demand is not None and is_reclaimed(job) and job["jobQueue"] != on_demand["jobQueue"]


def not_withdrawn(
    listed: Sequence[dict[str, Any]], request: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the listed jobs that have the request's name and weren't withdrawn by their task."""
    name = request["jobName"]
    return [job for job in listed if job["jobName"] == name and not was_withdrawn(job)]
