"""One attempt of a job: its containers started, stopped and waited for."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import uuid
from typing import TYPE_CHECKING

from moto.logs.models import logs_backends

from local_cloud.batch import environment
from local_cloud.batch.job import AttemptRecord, NodeRecord, new_task_id, now_milliseconds
from local_cloud.batch.logs import LogStream
from local_cloud.batch.process import ContainerProcess
from local_cloud.batch.retry import AttemptEnd

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from moto.batch.models import ComputeEnvironment

    from local_cloud.batch.container import Container
    from local_cloud.batch.job import Job
    from local_cloud.batch.pool import Allocation
    from local_cloud.settings import Settings

EXITED = "Essential container in task exited"
NOT_STARTED = "Task failed to start"
HOST_LOST = "Host EC2 (instance {}) terminated."


class ImageMissingError(Exception):
    """The registry does not have the image."""


class Attempt:
    """The containers of one attempt; `stop` may be called from any thread, at any time."""

    def __init__(
        self,
        job: Job,
        allocation: Allocation,
        settings: Settings,
        environment: ComputeEnvironment,
        missing_images: Collection[str] = (),
    ) -> None:
        self.allocation = allocation
        self.stop_reason: str | None = None
        self._host_lost: str | None = None
        self.job = job
        self._settings = settings
        self._environment = environment
        self._missing_images = missing_images
        self._main = job.submission.main_node or 0
        self._processes: dict[int, ContainerProcess] = {}
        self._lock = threading.Lock()
        self._kill_timer: threading.Timer | None = None
        self._start_error: Exception | None = None
        self.record = AttemptRecord(
            [self._new_node_record(node) for node in self._node_order()], environment.name
        )
        job.attempts.append(self.record)

    def _node_order(self) -> range:
        return range(len(self.job.submission.containers))

    def _new_node_record(self, node: int) -> NodeRecord:
        submission = self.job.submission
        container = submission.containers[node]
        prefix = container.log_stream_prefix(submission.definition.name)
        task_id, ecs = new_task_id(), self._environment.ecs_arn
        return NodeRecord(
            log_stream_name=f"{prefix}/default/{task_id}",
            task_arn=f"{ecs.replace(':cluster/', ':task/')}/{task_id}",
            container_instance_arn=f"{ecs.replace(':cluster/', ':container-instance/')}/local",
        )

    def start(self) -> bool:
        """Start all containers, the main node's first; say whether that worked."""
        others = [node for node in self._node_order() if node != self._main]
        began = now_milliseconds()
        try:
            for node in (self._main, *others):
                self._start(node)
        except Exception as error:
            # Whatever it was: told as the job's outcome, or the job would stay in STARTING.
            self._start_error = error
            self.kill()
            return False
        self.record.started_at = began
        return True

    def wait(self) -> AttemptEnd:
        """Wait for the main node's end, then end the others; they may take the grace to stop."""
        if self._start_error is None:
            self._processes[self._main].wait()
            self._end_others()
        for node, process in self._processes.items():
            self.record.nodes[node].exit_code = process.wait()
        end = self._how_it_ended(self.record.nodes[self._main])
        self.record.stopped_at = now_milliseconds()
        self.record.status_reason = end.status_reason
        return end

    def _end_others(self) -> None:
        with self._lock:
            others = [process for node, process in self._processes.items() if node != self._main]
            for process in others:
                process.ask_to_stop()
            if others:
                self._kill_after(self._settings.stop_grace_seconds)

    def _how_it_ended(self, main: NodeRecord) -> AttemptEnd:
        with self._lock:
            if self._kill_timer is not None:
                self._kill_timer.cancel()
            host_lost = self._host_lost
        if self._start_error is not None:
            pulled = not isinstance(self._start_error, ImageMissingError)
            error = "CannotStartContainerError" if pulled else "CannotPullContainerError"
            main.exit_code, main.reason = None, f"{error}: {self._start_error}"
            status_reason = NOT_STARTED
        elif host_lost is not None:
            main.exit_code, status_reason = None, host_lost  # nobody was left to tell the code
        else:
            status_reason = EXITED
        return AttemptEnd(main.exit_code, main.reason, self.stop_reason or status_reason)

    def _start(self, node: int) -> ContainerProcess:
        """Start one node's container, unless the attempt is being stopped already."""
        job, container = self.job, self.job.submission.containers[node]
        self._pull(container)
        arn = job.arn.split(":")
        region, account = arn[3], arn[4]
        variables = environment.for_node(
            job, node, self._gpu_ids(node), region, self._settings.endpoint_url
        )
        command = resolve(container.command, variables.get("PATH", ""), self._settings.job_dir)
        stream = LogStream(
            logs_backends[account][region],
            container.log_group,
            self.record.nodes[node].log_stream_name,
        )
        stream.create()
        with self._lock:
            process = ContainerProcess(command, variables, self._settings.job_dir, stream)
            self._processes[node] = process
            if self.stop_reason is not None or self._host_lost is not None:
                process.ask_to_stop()
        return process

    def _pull(self, container: Container) -> None:
        """No image is needed here, but one may be missing."""
        image = container.properties.get("image")
        if image in self._missing_images:
            raise ImageMissingError(
                f"Error response from daemon: manifest for {image} not found: manifest unknown: "
                "Requested image not found"
            )

    def _gpu_ids(self, node: int) -> tuple[str, ...]:
        """The node's share of the GPUs assigned to the whole job."""
        counts = [container.requirements.gpus for container in self.job.submission.containers]
        first = sum(counts[:node])
        return self.allocation.gpu_ids[first : first + counts[node]]

    def stop(self, reason: str) -> None:
        """Ask the containers to stop, and kill them after the grace; the first reason stays."""
        with self._lock:
            if self.stop_reason is None:
                self.stop_reason = reason
                self._ask_all_to_stop(self._settings.stop_grace_seconds)

    def lose_host(self, notice_seconds: float) -> bool:
        """Take the attempt's instance away after this notice; say whether it was still there."""
        with self._lock:
            if self.stop_reason is not None or self._host_lost is not None:
                return False
            self._host_lost = HOST_LOST.format(f"i-{uuid.uuid4().hex[:17]}")
            self._ask_all_to_stop(notice_seconds)
        return True

    def command_pids(self) -> list[int]:
        """The process ids of the containers' commands, as far as they run."""
        return [pid for process in list(self._processes.values()) for pid in process.command_pids()]

    def _ask_all_to_stop(self, grace_seconds: float) -> None:
        for process in self._processes.values():
            process.ask_to_stop()
        self._kill_after(grace_seconds)

    def _kill_after(self, seconds: float) -> None:
        if self._kill_timer is None:
            self._kill_timer = threading.Timer(seconds, self.kill)
            self._kill_timer.daemon = True
            self._kill_timer.start()

    def kill(self) -> None:
        """Kill the containers now."""
        for process in list(self._processes.values()):
            process.kill()


def resolve(command: list[str], path: str, job_dir: Path) -> list[str]:
    """The command with its program found; `python` and `python3` are this interpreter."""
    if not command:
        msg = "no command specified; there is no image here whose command could run instead"
        raise OSError(msg)
    program, *arguments = command
    if program in ("python", "python3"):
        return [sys.executable, *arguments]
    if os.sep in program:
        found = str(job_dir / program) if os.access(job_dir / program, os.X_OK) else None
    else:
        found = shutil.which(program, path=path)
    if found is None:
        msg = f'exec: "{program}": executable file not found in $PATH'
        raise OSError(msg)
    return [found, *arguments]
