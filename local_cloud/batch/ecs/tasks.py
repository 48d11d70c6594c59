"""Describes the ECS task for each container that Batch has started."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from moto.batch.models import ComputeEnvironment, batch_backends

from local_cloud.batch.jobs.job import AttemptRecord, Job, NodeRecord

STOPPED_SECONDS = 3600.0  # how long ECS describes a stopped task
CPU_UNITS = 1024  # CPU shares per vCPU


@dataclass(frozen=True)
class Placed:
    """One of an attempt's containers, with its compute environment."""

    job: Job
    attempt: AttemptRecord
    node: int
    environment: ComputeEnvironment

    @property
    def record(self) -> NodeRecord:
        return self.attempt.nodes[self.node]

    @property
    def stopped(self) -> bool:
        return self.attempt.stopped_at is not None

    @property
    def status(self) -> str:
        if self.stopped:
            return "STOPPED"
        return "PENDING" if self.attempt.started_at is None else "RUNNING"

    @property
    def remembered(self) -> bool:
        """Whether ECS still describes the task, as it does for an hour after the task stops."""
        stopped_at = self.attempt.stopped_at
        return stopped_at is None or time.time() - stopped_at / 1000 < STOPPED_SECONDS


def placed_in(account: str, region: str, cluster: str) -> list[Placed]:
    """Return all containers ever started in the named ECS cluster, oldest job first."""
    backend: Any = batch_backends[account][region]
    with backend.scheduler.lock:
        environments = {
            each.name: each
            for each in backend._compute_environments.values()
            if each.ecs_name == cluster
        }
        return [
            Placed(job, attempt, node, environments[attempt.compute_environment])
            for job in backend._jobs.values()
            for attempt in job.attempts
            if attempt.compute_environment in environments
            for node, record in enumerate(attempt.nodes)
            if record.task_arn.split("/")[-2] == cluster
        ]


def task(placed: Placed) -> dict[str, Any]:
    """Describe a task as DescribeTasks does, but without tags; moto leaves out None fields."""
    attempt, record = placed.attempt, placed.record
    container = placed.job.submission.containers[placed.node]
    needed = container.requirements
    cpu, memory = str(int(needed.vcpus * CPU_UNITS)), str(needed.memory_mib)
    return {
        "taskArn": record.task_arn,
        "clusterArn": placed.environment.ecs_arn,
        "containerInstanceArn": record.container_instance_arn,
        "taskDefinitionArn": getattr(placed.job.submission.definition, "task_definition", None),
        "launchType": "EC2",
        "lastStatus": placed.status,
        "desiredStatus": "STOPPED" if placed.stopped else "RUNNING",
        "cpu": cpu,
        "memory": memory,
        "createdAt": moment(attempt.created_at),
        "pullStartedAt": moment(record.pull_started_at),
        "pullStoppedAt": moment(record.pull_stopped_at),
        "startedAt": moment(attempt.started_at),
        "stoppedAt": moment(attempt.stopped_at),
        "stopCode": _stop_code(placed) if placed.stopped else None,
        "stoppedReason": attempt.status_reason,
        "containers": [_container(placed, {"cpu": cpu, "memory": memory})],
    }


def _stop_code(placed: Placed) -> str:
    """Return the ECS stop code; only a terminated job's last attempt gets UserInitiated."""
    job, attempt = placed.job, placed.attempt
    if job.is_terminated and attempt is job.attempts[-1]:
        return "UserInitiated"
    return "TaskFailedToStart" if attempt.started_at is None else "EssentialContainerExited"


def _container(placed: Placed, limits: dict[str, str]) -> dict[str, Any]:
    record = placed.record
    return {
        "name": "default",
        "taskArn": record.task_arn,
        "image": placed.job.submission.containers[placed.node].properties.get("image"),
        "imageDigest": record.image_digest,
        "lastStatus": placed.status,
        "exitCode": record.exit_code,
        "reason": record.reason,
        "gpuIds": list(placed.attempt.gpu_ids) or None,
        **limits,
    }


def moment(milliseconds: int | None) -> datetime | None:
    """Convert epoch milliseconds to the type that moto's responses need."""
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
