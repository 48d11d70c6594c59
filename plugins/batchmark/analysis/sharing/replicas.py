"""A row's replicas: step times, shares of the device, and starvation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from statistics import mean, median
from typing import Self

from pydantic import Field

from batchmark.analysis.samples import largest
from batchmark.core import formatting
from batchmark.core.intervals import known_median
from batchmark.core.record import Record
from batchmark_job.result.sharing import Replica, ReplicaOutcome, Sharing

STARVED_SHARE = 0.5  # of the mean share of its group
STARVED_GAP = 10  # in its own median steps, without completing one
OUTCOMES = {
    ReplicaOutcome.RAN: "completed",
    ReplicaOutcome.OUT_OF_MEMORY: "ran out of memory",
    ReplicaOutcome.CRASHED: "crashed",
    ReplicaOutcome.HUNG: "hung",
    ReplicaOutcome.FAILED: "failed",
}


class StepTimes(Record):
    """Quantiles of a replica's step times in seconds; null if no replica reported them."""

    p50: float | None
    p95: float | None
    p99: float | None


class ReplicaFigures(Record):
    """Figures for a row's replicas; medians over the jobs unless noted otherwise."""

    devices: int = Field(
        description="number of GPUs that the replicas ran on (pods can use several); 1 on a CPU"
    )
    slowest: StepTimes = Field(description="largest value of each quantile across the replicas")
    typical: StepTimes = Field(description="median of each quantile across the replicas")
    fairness_worst: float | None = Field(
        description="Jain's fairness index of the steps in the least fair group of processes "
        "of any job"
    )
    fairness_median: float | None = Field(
        description="median of Jain's fairness index across all jobs' groups of processes"
    )
    longest_gap_seconds: float | None = Field(
        description="longest time without a finished step in any replica of any job"
    )
    startup_seconds: float | None = Field(description="start-up time of the slowest replica")
    device_memory_bytes: float | None = Field(
        description="GPU memory per replica, including contexts; maximum over the jobs"
    )
    peak_memory_bytes: int | None = Field(
        description="peak memory used by torch on CUDA or by the process on a CPU; maximum over "
        "replicas and jobs"
    )

    @classmethod
    def of(cls, rows: Sequence[Sharing]) -> Self:
        fairness = [one for row in rows for one in group_fairness(row.replicas)]
        replicas = [replica for row in rows for replica in row.replicas]
        return cls(
            devices=max(map(_devices, rows), default=1),
            slowest=_step_times(rows, max),
            typical=_step_times(rows, median),
            fairness_worst=min(fairness, default=None),
            fairness_median=known_median(fairness),
            longest_gap_seconds=largest(one.longest_gap_seconds for one in replicas),
            startup_seconds=_over_jobs(rows, "startup_seconds", max),
            device_memory_bytes=largest(map(_device_memory, rows)),
            peak_memory_bytes=largest(one.peak_memory_bytes for one in replicas),
        )


class Starved(Record):
    """A replica that got far less of the device than the others, or waited far too long."""

    replica: int = Field(description="index, starting at 0")
    job_id: str
    group: int | None = Field(
        default=None,
        description="index, starting at 0, of the group in which its share was too small",
    )
    share: float | None = Field(
        default=None, description="its number of steps relative to the group's mean"
    )
    gap_steps: float | None = Field(
        default=None,
        description="its longest gap as a multiple of its median step time; null if it is not "
        "too long",
    )

    def __str__(self) -> str:
        parts = []
        if self.share is not None:
            parts.append(f"made {formatting.percent(self.share)} of the mean number of steps")
        if self.gap_steps is not None:
            steps = formatting.two_digits(self.gap_steps)
            parts.append(f"waited as long as {steps} of its median steps for a single one")
        return f"replica {self.replica + 1} {' and '.join(parts)}"


class ReplicaEnd(Record):
    """How a replica ended."""

    replica: int = Field(description="index, starting at 0")
    outcome: ReplicaOutcome
    reason: str | None

    @property
    def ran(self) -> bool:
        return self.outcome is ReplicaOutcome.RAN

    def __str__(self) -> str:
        return f"replica {self.replica + 1} {OUTCOMES[self.outcome]}" + (
            f" ({self.reason})" if self.reason else ""
        )


def jain(shares: Sequence[float]) -> float | None:
    """Return Jain's fairness index: 1 if all are equal, 1/n if one has all, None if all are zero.

    Jain, Chiu and Hawe, DEC-TR-301, 1984.
    """
    squares = sum(share**2 for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


def group_fairness(replicas: Sequence[Replica]) -> list[float]:
    """Return the fairness index of each group in which any step was completed."""
    return [found for group in _groups(replicas) if (found := jain(group)) is not None]


def starved(row: Sharing, job_id: str) -> list[Starved]:
    """Find the replicas that starved in a job, each with its smallest share.

    Only whole steps are counted, so one is added in case the measurement ended during a step.
    """
    groups = _groups(row.replicas)
    found = []
    for index, replica in enumerate(row.replicas):
        shares = [
            (steps[index] / mean(steps), number)
            for number, steps in enumerate(groups)
            if steps[index] + 1 < STARVED_SHARE * mean(steps)
        ]
        share, group = min(shares, default=(None, None))
        gap = _gap_steps(replica)
        gap = gap if gap and gap > STARVED_GAP else None
        if share is not None or gap:
            found.append(
                Starved(replica=index, job_id=job_id, group=group, share=share, gap_steps=gap)
            )
    return found


def ends_of(rows: Sequence[Sharing]) -> list[ReplicaEnd]:
    """Return how each replica ended, preferring the first job in which it did not complete."""
    replicas = zip_longest(*(row.replicas for row in rows))
    found = []
    for index, in_jobs in enumerate(replicas):
        known = [replica for replica in in_jobs if replica]
        worst = next((one for one in known if one.outcome is not ReplicaOutcome.RAN), known[0])
        found.append(ReplicaEnd(replica=index, outcome=worst.outcome, reason=worst.reason))
    return found


def _groups(replicas: Sequence[Replica]) -> list[tuple[int, ...]]:
    """Return all replicas' steps by group, with 0 for a replica that had already ended."""
    return list(zip_longest(*(replica.group_steps for replica in replicas), fillvalue=0))


def _gap_steps(replica: Replica) -> float | None:
    if not (replica.longest_gap_seconds and replica.step_seconds_p50):
        return None
    return replica.longest_gap_seconds / replica.step_seconds_p50


def _step_times(rows: Sequence[Sharing], over: Callable[[list[float]], float]) -> StepTimes:
    names = ("p50", "p95", "p99")
    return StepTimes(**{name: _over_jobs(rows, f"step_seconds_{name}", over) for name in names})


def _over_jobs(
    rows: Sequence[Sharing], name: str, over: Callable[[list[float]], float]
) -> float | None:
    """Aggregate a value over each job's replicas, and return the median over the jobs."""
    by_job = ([getattr(replica, name) for replica in row.replicas] for row in rows)
    known = ([value for value in values if value is not None] for values in by_job)
    return known_median(over(values) for values in known if values)


def _devices(row: Sharing) -> int:
    return len({replica.device_uuid for replica in row.replicas})


def _device_memory(row: Sharing) -> float | None:
    if row.device_memory_bytes is None:
        return None
    at_once = 1 if row.mode == "exclusive" else len(row.replicas)
    return row.device_memory_bytes / at_once
