"""A job's state, which only the scheduler changes, while holding its lock."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from local_cloud.batch.jobs.container import Container
from local_cloud.batch.jobs.resources import Requirements
from local_cloud.clock import now_milliseconds

if TYPE_CHECKING:
    from moto.batch.models import JobDefinition, JobQueue

FINISHED = ("SUCCEEDED", "FAILED")
NOT_STARTED = ("SUBMITTED", "PENDING", "RUNNABLE")
STATUSES = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", *FINISHED)


@dataclass
class NodeRecord:
    """The record of one of an attempt's containers, for DescribeJobs and DescribeTasks."""

    log_stream_name: str
    task_arn: str
    container_instance_arn: str
    exit_code: int | None = None
    reason: str | None = None
    address: str | None = None  # its own address; only nodes of multi-node jobs have one
    image_digest: str | None = None  # None without a Docker engine
    pull_started_at: int | None = None  # epoch milliseconds; None if the image was not pulled
    pull_stopped_at: int | None = None

    @property
    def task_id(self) -> str:
        """The id of the ECS task, which runs only this container."""
        return self.task_arn.rpartition("/")[2]


@dataclass
class AttemptRecord:
    """The record of one attempt; times are epoch milliseconds."""

    nodes: list[NodeRecord]
    compute_environment: str
    gpu_ids: tuple[str, ...] = ()
    started_at: int | None = None
    stopped_at: int | None = None
    status_reason: str | None = None
    created_at: int | None = None


@dataclass
class Submission:
    """A valid SubmitJob request with all names resolved."""

    name: str
    queue: JobQueue
    definition: JobDefinition
    parameters: dict[str, str]
    retry_strategy: dict[str, Any]
    timeout: dict[str, int]
    depends_on: list[dict[str, str]]
    container_overrides: dict[str, Any]
    containers: list[Container]
    main_node: int | None
    node_properties: dict[str, Any] | None
    array_size: int | None

    @property
    def is_multi_node(self) -> bool:
        return self.main_node is not None

    @property
    def requirements(self) -> Requirements:
        """The total for all nodes, because either all of them get their resources or none do."""
        return sum((container.requirements for container in self.containers), Requirements())


@dataclass(eq=False)
class Job:
    """A single job, an array job's parent (with children) or one of its children (with an index).

    `on_change` is called after each change of state; it must neither block nor fail.
    """

    submission: Submission
    id: str
    arn: str
    sequence: int
    on_change: Callable[[Job], None] = field(repr=False)
    index: int | None = None
    parent: Job | None = None
    children: list[Job] = field(default_factory=list)
    unmet: set[str] = field(default_factory=set)

    status: str = "SUBMITTED"
    status_reason: str | None = None
    created_at: int = field(default_factory=now_milliseconds)
    started_at: int | None = None
    stopped_at: int | None = None
    attempts: list[AttemptRecord] = field(default_factory=list)
    stop_reason: str | None = None
    is_cancelled: bool = False
    is_terminated: bool = False

    @property
    def finished(self) -> bool:
        return self.status in FINISHED

    @property
    def is_array_parent(self) -> bool:
        """Whether this is an array job's parent, which is never run itself."""
        return self.submission.array_size is not None and self.index is None

    def enter(self, status: str, reason: str | None = None) -> None:
        self.status = status
        self.status_reason = reason
        self.on_change(self)

    def finish(self, status: str, reason: str | None, stopped_at: int | None = None) -> None:
        """End the job at `stopped_at` (epoch milliseconds), or now if that is None."""
        self.stopped_at = stopped_at or now_milliseconds()
        self.enter(status, reason)


def new_task_id() -> str:
    """Generate an ECS task id of 32 hexadecimal digits."""
    return uuid.uuid4().hex
