"""The interface of container runtimes; see `process_runtime` and `docker_runtime`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from local_cloud.batch.jobs.container import Container
from local_cloud.batch.jobs.job import Job, NodeRecord

if TYPE_CHECKING:
    from local_cloud.batch.running.log_stream import LogStream


class RuntimeUnavailableError(Exception):
    """Raised when jobs can't run as the command line requires."""


class StartError(Exception):
    """Raised when a container can't be started; `kind` is the ECS agent's name for the error."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")


@dataclass(frozen=True)
class Launch:
    """A request to start one node.

    `main_node_address` is None for the main node itself; `file_system` is None if the node's host
    mounts no file system.
    """

    job: Job
    node: int
    gpu_ids: tuple[str, ...]
    log_stream: LogStream
    main_node_address: str | None
    file_system: Path | None = None

    @property
    def container(self) -> Container:
        return self.job.submission.containers[self.node]

    @property
    def record(self) -> NodeRecord:
        return self.job.attempts[-1].nodes[self.node]

    @property
    def region(self) -> str:
        return self.job.arn.split(":")[3]


class Exit(NamedTuple):
    """How a container ended; the code is 128 + n after signal n, or None if unknown."""

    code: int | None
    reason: str | None = None


class RunningContainer(Protocol):
    """A started container. Only `wait` blocks; all methods can be called after it has ended."""

    @property
    def started_at(self) -> int:
        """When the command started, in epoch milliseconds."""

    @property
    def address(self) -> str | None:
        """The container's own IP address, or None if it shares the host's network."""

    def command_pids(self) -> list[int]:
        """Return the process ids of the command, or an empty list once it has ended."""

    def ask_to_stop(self) -> None:
        """Send the command SIGTERM, or the stop signal that its image specifies."""

    def kill(self) -> None:
        """Kill the command and every process that it has started."""

    def wait(self) -> Exit:
        """Wait until the container has ended and its output is logged; return how it ended."""

    def remove(self) -> None:
        """Remove the container."""


class Runtime(Protocol):
    """Starts containers; can be used from any thread."""

    @property
    def shares_network(self) -> bool:
        """Whether containers share the host's network and have no addresses of their own."""

    def start(self, launch: Launch) -> RunningContainer:
        """Start a node's container; raise StartError, OSError or ValueError if that fails."""

    def adopt(self, launch: Launch) -> RunningContainer | None:
        """Take over a container that an earlier server started; return None if it started none."""

    def remove_others(self, task_ids: Collection[str]) -> None:
        """Remove containers left by an earlier server, except those of the given ECS tasks."""

    def inspect(self, task_id: str) -> dict[str, Any] | None:
        """Return the engine's description of an ECS task's container, or None if there is none."""

    def close(self) -> None:
        """Remove the containers and folders that are left; nothing may be started afterwards."""
