"""What workers are started with. Only there does it load libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchmark_job.measuring.problem import Problem
    from batchmark_job.measuring.processes.workers import Tell
    from batchmark_job.sharing.replicas import Replicas


def start_replicas(
    tell: Tell,
    problem: Problem,
    implementation: int,
    threads: int | None,
    count: int,
    environment: Mapping[str, str],
    memory_limit_bytes: int | None,
) -> Replicas:
    """Replicas of a task in one process; see there for the arguments."""
    from batchmark_job.sharing.replicas import Replicas

    return Replicas(tell, problem, implementation, threads, count, environment, memory_limit_bytes)
