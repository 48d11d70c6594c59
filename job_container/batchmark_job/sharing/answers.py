"""Answers from a worker that runs replicas."""

from __future__ import annotations

from typing import NamedTuple

from batchmark_job.measuring.processes.answers import FirstCall
from batchmark_job.result.sharing import ReplicaOutcome
from batchmark_job.sharing.schedule import Steps


class StartedReplica(NamedTuple):
    """A replica that has taken its first steps."""

    first: FirstCall
    startup_seconds: float
    device_uuid: str | None
    multiprocessors: int | None = None

    @property
    def step_seconds(self) -> float:
        """The duration of the replica's fastest warm step, or of its first if no step was warm."""
        return min(self.first.warm_seconds, default=self.first.seconds)


class ReplicaRun(NamedTuple):
    """A replica's steps and memory use in one run; memory is None if replicas share a process."""

    steps: Steps
    peak_memory_bytes: int | None


class ReplicaFailure(NamedTuple):
    """How and why a replica failed to complete its run."""

    outcome: ReplicaOutcome
    reason: str
