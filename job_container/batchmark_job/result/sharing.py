"""A result document's records for tasks that share a device."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import FailFast, Field

from batchmark_job.result.values import (
    Count,
    Few,
    Model,
    Name,
    PositiveCount,
    PositiveSeconds,
    PositiveSize,
    Seconds,
    Size,
    Text,
    optional,
)


class SharingMode(StrEnum):
    """How several tasks use one device."""

    EXCLUSIVE = "exclusive"  # one task after the other, each alone
    TIME_SLICING = "time_slicing"  # processes at once, as driver or kernel schedules them
    MPS = "mps"  # processes at once, through NVIDIA's Multi-Process Service
    STREAMS = "streams"  # threads of one process, each on a CUDA stream of its own


class Disturbance(StrEnum):
    """What the first replica does to the others in a disturbance experiment."""

    OUT_OF_MEMORY = "out_of_memory"
    CRASH = "crash"
    HANG = "hang"
    SLOW = "slow"  # each of its steps takes ten times as long


class ReplicaOutcome(StrEnum):
    """How a replica ended."""

    RAN = "ran"
    OUT_OF_MEMORY = "out_of_memory"
    CRASHED = "crashed"
    HUNG = "hung"
    FAILED = "failed"  # with its own error, or a wrong result


class Replica(Model):
    """One of the tasks that share a device, with its results from all groups of processes."""

    outcome: ReplicaOutcome
    reason: Text | None = optional("why it did not run to the end")
    device_uuid: Name | None = optional("UUID of its GPU; null on the CPU")
    group_steps: Few[Count] = optional("whole steps within the windows, by group", ())
    step_seconds_p50: PositiveSeconds | None = optional("median duration of all its steps")
    step_seconds_p95: PositiveSeconds | None = None
    step_seconds_p99: PositiveSeconds | None = None
    longest_gap_seconds: Seconds | None = optional(
        "longest time without a finished step while the replica was measured"
    )
    startup_seconds: Seconds | None = optional(
        "from its process's start to its first finished step, while all others start too; median "
        "over the groups"
    )
    peak_memory_bytes: Size | None = optional(
        "torch's on CUDA, without the context; the whole process's on the CPU"
    )
    multiprocessors: PositiveCount | None = optional(
        "multiprocessors of its GPU that CUDA lets it use; fewer if MPS limits threads"
    )


class Sharing(Model):
    """How a row's replicas shared one device."""

    mode: SharingMode
    form: Literal["processes", "jobs", "pods"] = Field(
        description="whether the replicas are processes of one job, children of one array job, or "
        "pods"
    )
    disturbance: Disturbance | None = optional("what the first replica did to the others")
    replicas: Annotated[tuple[Replica, ...], FailFast(), Field(min_length=1, max_length=100)]
    device_memory_bytes: Size | None = optional(
        "GPU memory of all replicas together, including contexts; null on the CPU or without NVML"
    )
    active_thread_percentage: Annotated[float, Field(gt=0, le=100)] | None = optional(
        "MPS limit per client, in per cent of the threads; null for no limit"
    )
    memory_limit_bytes: PositiveSize | None = optional("MPS limit per client; null for no limit")
    mig_enabled: bool | None = optional("whether MIG is on; null if the GPU does not support it")
