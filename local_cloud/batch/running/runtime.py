"""What a job's containers run on: `process` and `docker_runtime` are the two there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection

    from local_cloud.batch.container import Container
    from local_cloud.batch.job import Job, NodeRecord
    from local_cloud.batch.logs import LogStream


class RuntimeUnavailableError(Exception):
    """Nothing there could run jobs the way the local cloud was started for."""


class StartError(Exception):
    """A container can't be started; `kind` is the ECS agent's name for why."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")


@dataclass(frozen=True)
class Launch:
    """One node of a job's current attempt; `main_node_address` is None for the main node."""

    job: Job
    node: int
    gpu_ids: tuple[str, ...]
    log_stream: LogStream
    main_node_address: str | None

    @property
    def container(self) -> Container:
        """What the node was asked to run."""
        return self.job.submission.containers[self.node]

    @property
    def record(self) -> NodeRecord:
        """The node as describe_jobs shows it."""
        return self.job.attempts[-1].nodes[self.node]

    @property
    def region(self) -> str:
        """The job's region."""
        return self.job.arn.split(":")[3]


class Exit(NamedTuple):
    """How a container ended: 128 + n for signal n; no code where nobody can tell it."""

    code: int | None
    reason: str | None = None


class RunningContainer(Protocol):
    """A started container. All methods but `wait` return soon, and take a container that ended."""

    @property
    def started_at(self) -> int:
        """When its command was started, in epoch milliseconds."""

    @property
    def address(self) -> str:
        """Where the other nodes of its job reach it."""

    def command_pids(self) -> list[int]:
        """The process ids of its command; none once it has ended."""

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the command."""

    def kill(self) -> None:
        """Kill the command and everything that it has started."""

    def wait(self) -> Exit:
        """Wait for the end; all output is in its log stream then."""

    def remove(self) -> None:
        """Leave nothing behind."""


class Runtime(Protocol):
    """Starts containers, from any thread."""

    def start(self, launch: Launch) -> RunningContainer:
        """Start a node's container; raises StartError, or OSError or ValueError."""

    def adopt(self, launch: Launch) -> RunningContainer | None:
        """A container that an earlier server started, running or ended, with its whole log."""

    def remove_others(self, task_ids: Collection[str]) -> None:
        """Remove what an earlier server left, but for the containers of these ECS tasks."""

    def inspect(self, task_id: str) -> dict[str, Any] | None:
        """The engine's description of an ECS task's container, where there is an engine."""

    def close(self) -> None:
        """Leave nothing behind; start nothing more."""
