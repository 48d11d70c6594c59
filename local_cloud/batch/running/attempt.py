"""Runs a job attempt: starts its containers, stops them, and waits for them to end."""

from __future__ import annotations

import logging
import random
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

from moto.batch.models import ComputeEnvironment
from moto.logs.models import logs_backends

from local_cloud.batch.ecs import instances
from local_cloud.batch.jobs.container import Container
from local_cloud.batch.jobs.job import AttemptRecord, Job, NodeRecord, new_task_id
from local_cloud.batch.jobs.resources import Allocation
from local_cloud.batch.jobs.retry import AttemptEnd
from local_cloud.batch.running import loopback
from local_cloud.batch.running.log_stream import LogStream, LossyLogStream
from local_cloud.batch.running.runtime import Launch, RunningContainer, Runtime, StartError
from local_cloud.clock import later, now_milliseconds
from local_cloud.faults.kinds import LostLogLines, MissingImage, StopBeforeStart, UnstartedNode
from local_cloud.faults.under_way import active_faults, strike
from local_cloud.file_systems import hosts
from local_cloud.settings import Settings

EXITED = "Essential container in task exited"
NOT_STARTED = "Task failed to start"
HOST_LOST = "Host EC2 (instance {}) terminated."
CHILDREN_SECONDS = 0.2  # the period in which child nodes start, after the main node

log = logging.getLogger(__name__)


class Attempt:
    """Runs one attempt's containers; `stop` can be called at any time, from any thread."""

    def __init__(
        self,
        job: Job,
        allocation: Allocation,
        settings: Settings,
        runtime: Runtime,
        environment: ComputeEnvironment,
        record: AttemptRecord | None = None,
    ) -> None:
        self.allocation = allocation
        self.stop_reason: str | None = None
        self.reclaimed_at: datetime | None = None  # as announced by Spot's notice
        self._host_lost: str | None = None
        self.job = job
        self._settings = settings
        self._runtime = runtime
        self._environment = environment
        self._file_system: Path | None = None
        self._main = job.submission.main_node or 0
        self._nodes = range(len(job.submission.containers))
        self._containers: dict[int, RunningContainer] = {}
        self._lock = threading.Lock()
        self._kill_timers: list[threading.Timer] = []
        self._stop_grace: float | None = None  # seconds; set once the containers are to stop
        self._start_error: Exception | None = None
        self._main_ended = threading.Event()
        self._starter = threading.Thread(target=self._start_children, daemon=True)
        if record is None:
            nodes = [self._new_node_record(node) for node in self._nodes]
            gpu_ids = allocation.gpu_ids or allocation.shared_gpu_ids
            record = AttemptRecord(nodes, environment.name, gpu_ids, created_at=now_milliseconds())
            job.attempts.append(record)
        self.record = record

    def _new_node_record(self, node: int) -> NodeRecord:
        submission = self.job.submission
        container = submission.containers[node]
        prefix = container.log_stream_prefix(submission.definition.name)
        task_id, ecs = new_task_id(), self._environment.ecs_arn
        on_loopback = submission.is_multi_node and self._runtime.shares_network
        return NodeRecord(
            log_stream_name=f"{prefix}/default/{task_id}",
            task_arn=f"{ecs.replace(':cluster/', ':task/')}/{task_id}",
            container_instance_arn=instances.new_arn(ecs),
            address=loopback.new_address() if on_loopback else None,
        )

    def start(self) -> bool:
        """Start the main node, then the others; return whether the main node could start."""
        try:
            self._file_system = hosts.mount(self._environment)
            main = self._start(self._main)
        except Exception as error:
            # Any error becomes the job's outcome; otherwise the job would stay in STARTING.
            self._start_error = error
            self.kill()
            return False
        self.record.started_at = main.started_at
        self._starter.start()
        return True

    def _start_children(self) -> None:
        """Start the other nodes in random order until the main node ends or the attempt is stopped.

        As in AWS, a node that can't start does not end the job: only the main node counts.
        """
        chance = random.Random(f"{self.job.id} {len(self.job.attempts)}")
        others = [node for node in self._nodes if node != self._main]
        began = time.monotonic()
        for seconds, node in sorted((chance.uniform(0, CHILDREN_SECONDS), each) for each in others):
            left = began + seconds - time.monotonic()
            if self._main_ended.wait(max(0.0, left)) or self._stop_grace is not None:
                return
            if self._stays_away(node):
                continue
            try:
                self._start(node)
            except Exception as error:
                self.record.nodes[node].reason = reason_of(error)

    def _stays_away(self, node: int) -> bool:
        """Return whether a fault keeps a node from starting."""
        name = self.job.submission.name
        return strike(UnstartedNode, lambda fault: fault.covers(name, node)) is not None

    def resume(self) -> bool:
        """Adopt an earlier server's containers, or start the attempt; return whether it runs.

        If some containers are missing or can't be inspected, treat the host as lost.
        """
        try:
            for node in self._nodes:
                container = self._runtime.adopt(self._launch(node))
                if container is not None:
                    self._containers[node] = container
        except Exception as error:
            # Containers that can't be inspected count as lost.
            log.warning("can't inspect the containers of job %s: %s", self.job.id, error)
            self.lose_host(0.0)
            return False
        if not self._containers and self.record.started_at is None:
            return self.start()
        if len(self._containers) == len(self._nodes):
            self.record.started_at = self._containers[self._main].started_at
            return True
        self.lose_host(0.0)
        return False

    def wait(self) -> AttemptEnd:
        """Wait for the main node to end, then end the others; return how the attempt ended."""
        if self._start_error is None and self._main in self._containers:
            self._containers[self._main].wait()
            self._main_ended.set()
            if self._starter.is_alive():
                self._starter.join()
            self._end_others()
        for node, container in self._containers.items():
            record = self.record.nodes[node]
            record.exit_code, record.reason = container.wait()
        end = self._outcome(self.record.nodes[self._main])
        self.record.stopped_at = self._stopped_at()
        self.record.status_reason = end.status_reason
        return end

    def _stopped_at(self) -> int:
        """Return the time now in epoch milliseconds, or an earlier time if a fault requires it."""
        name, started_at = self.job.submission.name, self.record.started_at
        if started_at and (fault := strike(StopBeforeStart, lambda fault: fault.covers(name))):
            return started_at - round(1000 * fault.early_seconds)
        return now_milliseconds()

    def _end_others(self) -> None:
        with self._lock:
            others = [found for node, found in self._containers.items() if node != self._main]
            for container in others:
                container.ask_to_stop()
            if others:
                self._kill_after(self._settings.stop_grace_seconds)

    def _outcome(self, main: NodeRecord) -> AttemptEnd:
        with self._lock:
            for timer in self._kill_timers:
                timer.cancel()
            host_lost = self._host_lost
        if self._start_error is not None:
            main.exit_code, main.reason = None, reason_of(self._start_error)
            status_reason = NOT_STARTED
        elif host_lost is not None:
            main.exit_code, status_reason = None, host_lost  # the exit code was lost with the host
        else:
            status_reason = EXITED
        return AttemptEnd(main.exit_code, main.reason, self.stop_reason or status_reason)

    def _start(self, node: int) -> RunningContainer:
        """Start one node's container, and stop it immediately if the attempt is being stopped."""
        launch = self._launch(node)
        check_image(launch.container)
        launch.log_stream.create()
        # Not under the lock, as pulling an image can take minutes.
        container = self._runtime.start(launch)
        with self._lock:
            self._containers[node] = container
            if self.job.submission.is_multi_node and not launch.record.address:
                launch.record.address = container.address
            if self._stop_grace is not None:
                container.ask_to_stop()
                self._kill_after(self._stop_grace)
        return container

    def _launch(self, node: int) -> Launch:
        _, _, _, region, account, _ = self.job.arn.split(":", 5)
        stream = LogStream(
            logs_backends[account][region],
            self.job.submission.containers[node].log_group,
            self.record.nodes[node].log_stream_name,
        )
        name = self.job.submission.name
        if lost := strike(LostLogLines, lambda fault: fault.covers(name)):
            where = (stream.backend, stream.group, stream.name)
            stream = LossyLogStream(*where, first=lost.first, last=lost.last)
        main_node_address = None if node == self._main else self.record.nodes[self._main].address
        return Launch(
            self.job, node, self._gpu_ids(node), stream, main_node_address, self._file_system
        )

    def _gpu_ids(self, node: int) -> tuple[str, ...]:
        """Return the node's share of the job's GPUs or, if it sees all, the shared instance's."""
        containers = self.job.submission.containers
        if containers[node].sees_all_gpus:
            return self.allocation.shared_gpu_ids
        counts = [container.requirements.gpus for container in containers]
        first = sum(counts[:node])
        return self.allocation.gpu_ids[first : first + counts[node]]

    def stop(self, reason: str) -> None:
        """Ask the containers to stop; kill them after a grace period. Repeated calls do nothing."""
        with self._lock:
            if self.stop_reason is None:
                self.stop_reason = reason
                self._stop_all(self._settings.stop_grace_seconds)

    def announce_reclaim(self, notice_seconds: float) -> bool:
        """Announce a Spot reclaim; return False if already announced or the attempt is ending."""
        with self._lock:
            if self._ends or self.reclaimed_at is not None:
                return False
            self.reclaimed_at = datetime.now(UTC) + timedelta(seconds=notice_seconds)
        return True

    def lose_host(self, grace_seconds: float) -> None:
        """Shut down the attempt's instance: SIGTERM, then SIGKILL after the grace period."""
        with self._lock:
            if not self._ends:
                self._host_lost = HOST_LOST.format(f"i-{uuid.uuid4().hex[:17]}")
                self._stop_all(grace_seconds)

    @property
    def _ends(self) -> bool:
        return self.stop_reason is not None or self._host_lost is not None

    def command_pids(self) -> dict[int, list[int]]:
        """Return the process ids of each started node's command."""
        return {node: found.command_pids() for node, found in list(self._containers.items())}

    def kill_node(self, node: int) -> bool:
        """Kill one node's container; return whether it had started."""
        container = self._containers.get(node)
        if container is not None:
            container.kill()
        return container is not None

    def _stop_all(self, grace_seconds: float) -> None:
        self._stop_grace = grace_seconds
        for container in self._containers.values():
            container.ask_to_stop()
        self._kill_after(grace_seconds)

    def _kill_after(self, seconds: float) -> None:
        """Kill the containers after `seconds`, including any that start in the meantime."""
        self._kill_timers.append(later(seconds, self.kill))

    def kill(self) -> None:
        for container in list(self._containers.values()):
            container.kill()

    def remove(self) -> None:
        """Remove the containers; call this once they have ended and their outcomes are saved."""
        for container in self._containers.values():
            container.remove()


def check_image(container: Container) -> None:
    """Raise StartError if a fault makes the image unavailable, even if jobs run as processes."""
    image = container.properties.get("image")
    if any(image == fault.image for _, fault in active_faults(MissingImage)):
        raise StartError(
            "CannotPullContainerError",
            f"Error response from daemon: manifest for {image} not found: manifest unknown: "
            "Requested image not found",
        )


def reason_of(error: Exception) -> str:
    """Return, in ECS's wording, why a container could not start."""
    if not isinstance(error, StartError):
        error = StartError("CannotStartContainerError", str(error))
    return str(error)
