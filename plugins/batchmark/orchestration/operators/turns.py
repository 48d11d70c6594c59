"""Waits for a job's turn when jobs run one after another.

A job's turn comes when the previous job's Airflow task is over. Only then have that job, all its
attempts and any On-Demand replacement ended.

A job whose replicas share an instance must also be alone on it. Jobs from other runs and cleared
tasks use the same queue, which serves only that instance, so nothing is submitted until the queue
is empty. Batch can't check and submit atomically, so several jobs can be submitted together. Each
therefore checks again once ListJobs shows earlier jobs, and only the oldest stays. Until the others
are terminated, their replicas can start alongside those of the oldest.

The queue of a user's own job can have other users and might never be empty, so it isn't checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from typing import Any, TypeVar

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.sdk.execution_time.xcom import XCom
from asgiref.sync import sync_to_async
from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.batch_jobs import is_passing, live_jobs
from batchmark.core.errors import BatchmarkError
from batchmark.orchestration.aws_clients import AwsClients
from batchmark.orchestration.operators.job_progress import JobOrder
from batchmark.orchestration.xcom import OWN_ERROR_XCOM

OVER = {"success", "failed", "skipped", "upstream_failed", "removed"}
EVERY_SECONDS = 10.0  # judgment: the next job is this late at most; a poll calls Airflow or Batch
SOON_SECONDS = 1.0  # from the end of a trigger until Airflow knows that its task is over

Answered = TypeVar("Answered")
# Whether the awaited triggers of this process have ended, by DAG, run, task and map index.
_awaited: dict[tuple[str, str, str, int], bool] = {}


class NotSubmittedError(BatchmarkError):
    """Raised if a job was rejected, or if its turn did not come in time."""


class NotRunError(BatchmarkError):
    """Raised if a job is skipped because it would fail."""


class WaitsForItsTurn:
    """Mixin for a BaseTrigger that waits for its job's turn; the trigger sets these attributes."""

    task_instance: Any
    log: Any
    order: JobOrder
    ahead: list[int]  # of the order, those that are not over yet
    clients: AwsClients
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[object]]

    async def wait_for_turn(self, queue: str) -> None:
        """Wait until the job may be submitted.

        Raises:
            NotSubmittedError: the job's turn did not come in time.
            NotRunError: the first job on the same side of a comparison failed because of its own
                error.
        """
        if self.order.after is not None:
            await self._wait_for_task_before(self.order.after)
        if self.order.first is not None and (error := await self.own_error(self.order.first)):
            raise NotRunError(f"not run, because the first job of this side failed: {error}")
        if self.order.alone:
            await self._wait_for_instance(queue)

    async def _wait_for_task_before(self, map_index: int) -> None:
        since, key = self.clock(), self._key(map_index)
        _awaited[key] = False
        try:
            while not await self.is_over(map_index):
                if self.order.is_turn_missed(self.clock()):
                    seconds = self.clock() - since
                    raise NotSubmittedError(
                        f"Not submitted, because the previous task (map index {map_index}) had "
                        f"not ended after {seconds:.0f} s. End that task, then clear this one"
                    )
                if self.order.alone:
                    await self.sleep(EVERY_SECONDS)
                else:
                    await self._sleep_unless_ended(key)
        finally:
            _awaited.pop(key, None)

    async def _sleep_unless_ended(self, key: tuple[str, str, str, int]) -> None:
        """Sleep until it's time to poll Airflow again, or until the previous trigger has ended."""
        for _ in range(round(await self._seconds_between() / SOON_SECONDS)):
            await self.sleep(SOON_SECONDS)
            if _awaited.get(key):
                return

    async def _seconds_between(self) -> float:
        """Return the seconds between polls of Airflow, doubled for each task left in `ahead`."""
        while self.ahead and await self.is_over(self.ahead[-1]):
            self.ahead.pop()
        return EVERY_SECONDS * 2.0 ** len(self.ahead)

    def tell_end(self) -> None:
        """Notify the trigger waiting for this one, if it runs in the same process."""
        if self.task_instance is not None and not self.order.alone:
            key = self._key(self.task_instance.map_index)
            if key in _awaited:
                _awaited[key] = True

    def _key(self, map_index: int) -> tuple[str, str, str, int]:
        ti = self.task_instance
        return (ti.dag_id, ti.run_id, ti.task_id, map_index) if ti else ("", "", "", map_index)

    async def _wait_for_instance(self, queue: str) -> None:
        since, told = self.clock(), None
        while jobs := await self.live_jobs(queue):
            job = f"job {jobs[0]['jobId']} ({jobs[0]['jobName']})"
            if job != told:
                self.log.info(
                    "Waiting for %s to end, because both jobs would share an instance", job
                )
                told = job
            waited = self.clock() - since
            if self.order.is_turn_missed(self.clock()) or self.order.is_too_long(waited):
                raise NotSubmittedError(
                    f"Not submitted, because its instance did not become free within {waited:.0f} "
                    f"s: {job} is {jobs[0]['status']} in {queue}. End that job, or clear this "
                    "task once no other run is using the target"
                )
            await self.sleep(EVERY_SECONDS)

    async def live_jobs(self, queue: str) -> list[dict[str, Any]]:
        return await self.insist(live_jobs, self.clients("batch"), queue)

    async def insist(self, call: Callable[..., Answered], *arguments: Any) -> Answered:
        """Retry a call to Batch until it responds."""
        while True:
            try:
                return await asyncio.to_thread(call, *arguments)
            except (BotoCoreError, ClientError) as error:
                if not is_passing(error):
                    raise
                self.log.warning("Batch did not respond; retrying: %s", error)
            await self.sleep(EVERY_SECONDS)

    async def is_over(self, map_index: int) -> bool:
        """Ask Airflow whether another mapped instance of the task is over."""
        if self.task_instance is None:
            return True  # dag.test() runs one task after the other
        ask, ti = sync_to_async(RuntimeTaskInstance.get_task_states), self.task_instance
        states = await ask(
            dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id], map_index=map_index
        )
        return is_over({state for of_run in states.values() for state in of_run.values()})

    async def own_error(self, map_index: int) -> str | None:
        """Return a mapped instance's error if a rerun would fail the same way, otherwise None."""
        ti = self.task_instance
        if ti is None:
            return None
        told = await XCom.aget_one(
            key=OWN_ERROR_XCOM,
            dag_id=ti.dag_id,
            task_id=ti.task_id,
            run_id=ti.run_id,
            map_index=map_index,
        )
        return None if told is None else str(told)


def is_over(states: Set[str | None]) -> bool:
    """Return whether all tasks with these states are over; one without a state can still run."""
    return bool(states) and states <= OVER


def is_behind_others(job_id: str, live: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a job is one of its queue's live jobs, but not the oldest."""
    return job_id in [job["jobId"] for job in live[1:]]
