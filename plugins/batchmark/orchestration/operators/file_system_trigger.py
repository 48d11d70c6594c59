"""Triggers that create and delete a run's file system and then end their tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from airflow.triggers.base import BaseTrigger, TaskFailedEvent, TaskSuccessEvent, TriggerEvent
from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.batch_jobs import is_passing
from batchmark.aws.batch_targets import wanted_vcpus
from batchmark.aws.result_bucket import RunStore
from batchmark.core.clusters.multi_node import (
    DELETION_SECONDS,
    NODES_SECONDS,
    STAND_UP_SECONDS,
    FileSystem,
)
from batchmark.core.errors import LayerError, error_summary
from batchmark.orchestration.aws_clients import AwsAccess, AwsClients
from batchmark.orchestration.operators.ending_trigger import EndsItsTask, run_to_completion
from batchmark.orchestration.xcom import FAILURE_XCOM
from batchmark.runs.run_file_system import RunFileSystem, RunOfDag
from batchmark.runs.spending import settle_file_systems

POLL_SECONDS = 10.0  # judgment: creating and deleting take minutes
NAMING_SECONDS = 300  # judgment: one request, repeated only while AWS doesn't respond
KILL_SECONDS = 20.0  # of the 30 that Airflow gives on_kill
KILL_POLL_SECONDS = 2.0  # five attempts in half of KILL_SECONDS
BY_HAND = "The leak guard will delete it after the run, or you can delete it in the FSx console"


@dataclass(frozen=True, kw_only=True)
class FileSystemOrder:
    """The triggers' arguments.

    Attributes:
        bucket: the result bucket, which holds the run's plan and costs.
        environment: the nodes' compute environment; None if unknown.
        settings: the fields of the stack's FileSystem; None if unknown.
        run: the fields of a RunOfDag.
        deadline: the time at which to give up, in epoch seconds.
    """

    region_name: str
    bucket: str
    environment: str | None
    settings: dict[str, Any] | None
    run: dict[str, Any]
    deadline: float


class FileSystemTrigger(EndsItsTask, BaseTrigger):
    """Base class for both triggers; `order` contains the fields of a FileSystemOrder.

    If a triggerer dies, another one runs this trigger again with the same arguments.
    """

    def __init__(self, **order: Any) -> None:
        super().__init__()
        self.order = FileSystemOrder(**order)
        self.whose = RunOfDag.model_validate(self.order.run)
        access = AwsAccess(region_name=self.order.region_name)
        self.clients: Callable[[str], Any] = AwsClients.shared(access)
        self.clock: Callable[[], float] = time.time
        self.sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
        self._step: asyncio.Task[str | None] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        own = type(self)
        return f"{own.__module__}.{own.__qualname__}", dict(vars(self.order))

    @cached_property
    def file_system(self) -> RunFileSystem:
        given = self.order.settings
        settings = FileSystem.model_validate(given) if given else None
        return RunFileSystem(self.clients("fsx"), self.clients("ssm"), settings, self.whose)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            failure = await self.work()
        except Exception as error:
            self.log.exception("The file system's trigger failed")
            failure = error_summary(error)
        if failure is None:
            yield TaskSuccessEvent()
            return
        self.log.error(failure)
        await self.push_xcoms({FAILURE_XCOM: failure})
        yield TaskFailedEvent()

    async def work(self) -> str | None:
        """Do the work; return why it failed, or None if it succeeded."""
        raise NotImplementedError

    async def repeat(
        self, step: Callable[[], str | None], until: float, every: float = POLL_SECONDS
    ) -> str | None:
        """Repeat a step until nothing is pending; after a timeout, return what is still pending.

        Raises:
            ClientError, BotoCoreError: AWS rejected a request.
        """
        told = None
        while True:
            try:
                # Shielded, as on_kill must know what is being made.
                self._step = asyncio.create_task(asyncio.to_thread(step))
                waits = await asyncio.shield(self._step)
            except (BotoCoreError, ClientError) as error:
                if not is_passing(error):
                    raise
                waits = f"AWS did not respond: {error}"
            if waits is None or self.clock() > until:
                return waits
            if waits != told:
                self.log.info("%s", waits)
                told = waits
            await self.sleep(every)

    def nodes_left(self) -> str | None:
        """Describe earlier nodes that still exist; return None once Batch has ended them all."""
        environment = self.order.environment
        vcpus = wanted_vcpus(self.clients("batch"), environment) if environment else 0
        return f"Batch has not ended the nodes yet ({vcpus} vCPUs)" if vcpus else None

    def settle(self) -> None:
        """Book what the deleted file systems cost."""
        store = RunStore(self.clients("s3"), self.order.bucket, self.whose.run_id)
        layer = self.file_system
        gone = {file_system_id: layer.found[file_system_id] for file_system_id in layer.gone}
        left = len(layer.found) > len(gone)
        try:
            usd = settle_file_systems(store, gone, datetime.now(UTC), any_left=left)
        except Exception:  # it must not keep a file system's end from being told
            self.log.exception("The cost can't be settled, so the worst case stays booked")
            return
        if usd is not None:
            self.log.info("The file system cost about %.2f USD", usd)

    async def ended(self, end: Callable[[], str | None], until: float) -> str | None:
        """Repeat a deletion step as `repeat` does; if AWS rejects a request, return its error."""
        try:
            waits = await self.repeat(end, until)
        except (BotoCoreError, ClientError) as error:
            waits = str(error)
        if self.file_system.parameter_problem:
            self.log.warning("%s", self.file_system.parameter_problem)
        return waits


class StandUpTrigger(FileSystemTrigger):
    """Creates the file system, and ends its task once nodes can mount it.

    Nodes find out at boot which file system to mount, so earlier nodes must have ended. On failure,
    it removes what it created, because Airflow runs no teardown after a failed setup.
    """

    async def work(self) -> str | None:
        try:
            problem = await self._stood_up()
        except (LayerError, BotoCoreError, ClientError) as error:
            problem = str(error)
        except Exception as error:
            self.log.exception("The file system could not be created")
            problem = error_summary(error)
        if problem is None:
            file_system_id = self.file_system.file_system_id
            self.log.info("File system %s is ready", file_system_id)
            await self.push_xcoms({"return_value": file_system_id})
            return None
        self.log.error(
            "The file system could not be set up; removing what was created: %s", problem
        )
        return f"The file system could not be set up: {problem}. {await self._removed()}."

    async def _stood_up(self) -> str | None:
        """Create the file system; return None once nodes can mount it, or the reason they can't."""
        if waits := await self.repeat(self.file_system.stand_up, self.order.deadline):
            return f"{waits}, after {STAND_UP_SECONDS} s"
        if left := await self.repeat(self.nodes_left, self.clock() + NODES_SECONDS):
            return (
                f"{left}, after {NODES_SECONDS} s. These nodes booted too early to mount the file "
                "system: end the jobs that are running on them, then trigger the run again"
            )
        return await self.repeat(self.file_system.name_own, self.clock() + NAMING_SECONDS)

    async def _removed(self) -> str:
        waits = await self.ended(self.file_system.remove, self.clock() + DELETION_SECONDS)
        await asyncio.to_thread(self.settle)
        if waits is None:
            return "Everything created for it was deleted"
        return f"Not everything created for it was deleted: {waits}. {BY_HAND}"

    async def on_kill(self) -> None:
        """If a user marks or clears the task, delete what was created and log what remains."""
        await run_to_completion(self._delete())

    async def _delete(self) -> None:
        if self._step:
            await asyncio.wait({self._step}, timeout=KILL_SECONDS / 2)
        until = self.clock() + KILL_SECONDS / 2
        if waits := await self.repeat(self._end, until, every=KILL_POLL_SECONDS):
            self.log.error("The file system was not deleted: %s. %s", waits, BY_HAND)

    def _end(self) -> str | None:
        """Delete what was created; return AWS's error, or None once every deletion is requested."""
        waits = removed(self.file_system)
        if waits and not self.file_system.is_ending:
            return waits
        self.log.info("%s", waits or "No file system is left")
        return None


def removed(file_system: RunFileSystem) -> str | None:
    """Try to remove the file system; return what is pending or AWS's error, or None once done."""
    try:
        return file_system.remove()
    except (BotoCoreError, ClientError) as error:
        return str(error)


class CollapseTrigger(FileSystemTrigger):
    """Deletes the run's file systems, and ends its task once all of them are deleted.

    Nodes should end first: one that Batch keeps for the next job still has the file system mounted,
    and hangs once it is deleted. The wait for nodes to end is limited.
    """

    async def work(self) -> str | None:
        await self._without_nodes()
        waits = await self.ended(self.file_system.collapse, self.order.deadline)
        if self.file_system.found:
            await asyncio.to_thread(self.settle)
        if waits is not None:
            return f"The file system was not deleted: {waits}. {BY_HAND}."
        self.log.info("This run has no file system left")
        return None

    async def _without_nodes(self) -> None:
        try:
            left = await self.repeat(self._nodes_of_it_left, self.clock() + NODES_SECONDS)
        except (BotoCoreError, ClientError) as error:
            left = f"Can't tell whether nodes are left ({error})"
        if left:
            self.log.warning(
                "%s (waited up to %d s); deleting the file system anyway", left, NODES_SECONDS
            )

    def _nodes_of_it_left(self) -> str | None:
        return self.nodes_left() if self.file_system.withdraw() else None
