"""The triggers that stand a run's file system up and collapse it, and end their tasks."""

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
from batchmark.core.errors import LayerError, unexpected
from batchmark.orchestration.aws_clients import AwsAccess, AwsClients
from batchmark.orchestration.operators.ending_trigger import EndsItsTask, to_its_end
from batchmark.orchestration.xcom import FAILURE_XCOM
from batchmark.runs.run_file_system import RunFileSystem, RunOfDag
from batchmark.runs.spending import settle_file_systems

POLL_SECONDS = 10.0
NAMING_SECONDS = 300
KILL_SECONDS = 20.0  # of the 30 that Airflow gives on_kill
KILL_POLL_SECONDS = 2.0
BY_HAND = "The leak guard deletes it once the run is over, or do so in the FSx console"


@dataclass(frozen=True, kw_only=True)
class FileSystemOrder:
    """What the triggers are told.

    Attributes:
        bucket: where the run's plan and its costs are.
        environment: the nodes' compute environment; None if it is not known.
        settings: fields of the stack's FileSystem; None if they are not known.
        run: fields of RunOfDag.
        deadline: time after which it gives up, in seconds since the epoch.
    """

    region_name: str
    bucket: str
    environment: str | None
    settings: dict[str, Any] | None
    run: dict[str, Any]
    deadline: float


class FileSystemTrigger(EndsItsTask, BaseTrigger):
    """What both have in common; `order` are the fields of a FileSystemOrder.

    If a triggerer dies, the next one runs this again with the same arguments.
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
            failure = unexpected(error)
        if failure is None:
            yield TaskSuccessEvent()
            return
        self.log.error(failure)
        await self.push_xcoms({FAILURE_XCOM: failure})
        yield TaskFailedEvent()

    async def work(self) -> str | None:
        """Do it; why it failed, or None."""
        raise NotImplementedError

    async def repeat(
        self, step: Callable[[], str | None], until: float, every: float = POLL_SECONDS
    ) -> str | None:
        """Repeat a step until it has nothing to wait for; what it still waits for, if it is late.

        Raises:
            ClientError, BotoCoreError: AWS refuses.
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
                waits = f"AWS gives no answer: {error}"
            if waits is None or self.clock() > until:
                return waits
            if waits != told:
                self.log.info("%s", waits)
                told = waits
            await self.sleep(every)

    def nodes_left(self) -> str | None:
        """What is left of nodes that have booted before; None once Batch has ended all."""
        environment = self.order.environment
        vcpus = wanted_vcpus(self.clients("batch"), environment) if environment else 0
        return f"Batch has not ended the nodes yet ({vcpus} vCPUs)" if vcpus else None

    def settle(self) -> None:
        """Book what those cost that are gone."""
        store = RunStore(self.clients("s3"), self.order.bucket, self.whose.run_id)
        layer = self.file_system
        gone = {file_system_id: layer.found[file_system_id] for file_system_id in layer.gone}
        left = len(layer.found) > len(gone)
        try:
            usd = settle_file_systems(store, gone, datetime.now(UTC), any_left=left)
        except Exception:  # it must not keep a file system's end from being told
            self.log.exception("Its cost stays booked at the most it could be")
            return
        if usd is not None:
            self.log.info("It cost about %.2f USD", usd)

    async def ended(self, end: Callable[[], str | None], until: float) -> str | None:
        """As `repeat`, of a step that ends it; where AWS refuses, what it says."""
        try:
            waits = await self.repeat(end, until)
        except (BotoCoreError, ClientError) as error:
            waits = str(error)
        if self.file_system.parameter_problem:
            self.log.warning("%s", self.file_system.parameter_problem)
        return waits


class StandUpTrigger(FileSystemTrigger):
    """Ends its task once nodes can mount the file system.

    A node reads at boot which one it mounts, so those of before must have gone. If it fails, it
    removes what it has made first: Airflow runs no teardown after a setup that failed.
    """

    async def work(self) -> str | None:
        try:
            problem = await self._stood_up()
        except (LayerError, BotoCoreError, ClientError) as error:
            problem = str(error)
        except Exception as error:
            self.log.exception("Standing up failed")
            problem = unexpected(error)
        if problem is None:
            file_system_id = self.file_system.file_system_id
            self.log.info("File system %s is up", file_system_id)
            await self.push_xcoms({"return_value": file_system_id})
            return None
        self.log.error("The file system did not come up, removing what there is: %s", problem)
        return f"The file system did not come up: {problem}. {await self._removed()}."

    async def _stood_up(self) -> str | None:
        """Why it is not up; None once nodes can mount it."""
        if waits := await self.repeat(self.file_system.stand_up, self.order.deadline):
            return f"{waits}, after {STAND_UP_SECONDS} s"
        if left := await self.repeat(self.nodes_left, self.clock() + NODES_SECONDS):
            return (
                f"{left}, after {NODES_SECONDS} s. They booted before, so they would not mount it: "
                "end what runs on them, then trigger the run again"
            )
        return await self.repeat(self.file_system.name_own, self.clock() + NAMING_SECONDS)

    async def _removed(self) -> str:
        waits = await self.ended(self.file_system.remove, self.clock() + DELETION_SECONDS)
        await asyncio.to_thread(self.settle)
        if waits is None:
            return "What was made of it is gone"
        return f"What was made of it is not gone: {waits}. {BY_HAND}"

    async def on_kill(self) -> None:
        """Delete what was made when a user marks or clears the task, and tell what is left."""
        await to_its_end(self._delete())

    async def _delete(self) -> None:
        if self._step:
            await asyncio.wait({self._step}, timeout=KILL_SECONDS / 2)
        until = self.clock() + KILL_SECONDS / 2
        if waits := await self.repeat(self._end, until, every=KILL_POLL_SECONDS):
            self.log.error("The file system is not gone: %s. %s", waits, BY_HAND)

    def _end(self) -> str | None:
        """Delete what was made; None once all of it is told to go."""
        waits = removed(self.file_system)
        if waits and not self.file_system.is_ending:
            return waits
        self.log.info("%s", waits or "Nothing of the file system is there")
        return None


def removed(file_system: RunFileSystem) -> str | None:
    """What its removal waits for now, or what AWS says where it refuses; None if it is gone."""
    try:
        return file_system.remove()
    except (BotoCoreError, ClientError) as error:
        return str(error)


class CollapseTrigger(FileSystemTrigger):
    """Ends its task once all file systems of the run are gone.

    Nodes go first, as far as they go soon: one that Batch keeps for the next job has what it
    mounted when it booted, and hangs on what is gone.
    """

    async def work(self) -> str | None:
        await self._without_nodes()
        waits = await self.ended(self.file_system.collapse, self.order.deadline)
        if self.file_system.found:
            await asyncio.to_thread(self.settle)
        if waits is not None:
            return f"The file system is not gone: {waits}. {BY_HAND}."
        self.log.info("No file system of this run is left")
        return None

    async def _without_nodes(self) -> None:
        try:
            left = await self.repeat(self._nodes_of_it_left, self.clock() + NODES_SECONDS)
        except (BotoCoreError, ClientError) as error:
            left = f"Whether nodes are left can't be seen ({error})"
        if left:
            self.log.warning("%s, after %d s at most: it goes all the same", left, NODES_SECONDS)

    def _nodes_of_it_left(self) -> str | None:
        return self.nodes_left() if self.file_system.withdraw() else None
