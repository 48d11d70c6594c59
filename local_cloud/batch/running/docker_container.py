"""A job's container on a Docker engine."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from docker.errors import APIError, NotFound

from local_cloud.batch.running.container_output import (
    ENGINE_ERRORS,
    ContainerOutput,
    message_of,
    milliseconds,
)
from local_cloud.batch.running.log_stream import LogStream
from local_cloud.batch.running.runtime import Exit
from local_cloud.clock import now_milliseconds

OUT_OF_MEMORY = "OutOfMemoryError: Container killed due to memory usage"

log = logging.getLogger(__name__)


class DockerContainer:
    """A container on the engine, running or not; `container` is docker-py's object for it."""

    def __init__(self, container: Any, log_stream: LogStream, network: str | None) -> None:
        self._container = container
        self._log_stream = log_stream
        self._network = network
        self._exit: Exit | None = None
        self.started_at = now_milliseconds()
        self._outputs = [
            ContainerOutput(container, name, log_stream) for name in ("stdout", "stderr")
        ]

    def start(self) -> None:
        """Start the container; docker-py's errors are not caught."""
        self.started_at = now_milliseconds()
        self._container.start()
        self._read()

    def adopt(self) -> None:
        """Take over a container that an earlier server started, and rewrite its entire log."""
        self.started_at = milliseconds(self._container.attrs["State"]["StartedAt"])
        self._log_stream.clear()
        self._read()

    def _read(self) -> None:
        for output in self._outputs:
            output.start()

    @property
    def address(self) -> str | None:
        """The container's address on the jobs' network, or None if it uses the host's network."""
        if self._network is None:
            return None
        self._container.reload()
        networks = self._container.attrs["NetworkSettings"]["Networks"]
        return str(networks[self._network]["IPAddress"])

    def command_pids(self) -> list[int]:
        """Return the command's process id on the Docker host, or an empty list if it has ended."""
        with suppress(*ENGINE_ERRORS):
            self._container.reload()
            first = int(self._container.attrs["State"]["Pid"])
            if not self._container.attrs["HostConfig"].get("Init"):
                return [first] if first else []
            found = self._container.top(ps_args="-eo pid,ppid")["Processes"] or []
            return [int(pid) for pid, parent in found if int(parent) == first]
        return []

    def ask_to_stop(self) -> None:
        """Send the image's stop signal, which is SIGTERM by default."""
        self._signal(self._container.attrs["Config"].get("StopSignal") or "SIGTERM")

    def kill(self) -> None:
        self._signal("SIGKILL")

    def _signal(self, name: str) -> None:
        try:
            self._container.kill(signal=name)
        except ENGINE_ERRORS as error:
            # 404 and 409: removed, or no longer running.
            if not (isinstance(error, APIError) and error.status_code in (404, 409)):
                log.warning("could not send %s to a job: %s", name, message_of(error))

    def wait(self) -> Exit:
        if self._exit is None:
            self._exit = self._wait()
            for output in self._outputs:
                output.finish()
        return self._exit

    def _wait(self) -> Exit:
        try:
            code = int(self._container.wait(timeout=None)["StatusCode"])
            self._container.reload()
        except ENGINE_ERRORS as error:
            return Exit(None, f"CannotInspectContainerError: {message_of(error)}")
        out_of_memory = self._container.attrs["State"]["OOMKilled"]
        return Exit(code, OUT_OF_MEMORY if out_of_memory else None)

    def remove(self) -> None:
        """Remove the container, running or not, and its anonymous volumes."""
        try:
            with suppress(NotFound):
                self._container.remove(force=True, v=True)
        except ENGINE_ERRORS as error:
            log.warning("could not remove a job's container: %s", message_of(error))
