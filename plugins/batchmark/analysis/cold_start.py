"""Measures a target's cold start: the time and cost from job submission to steady state.

Timestamps come from three clocks: those of Batch (in its job records and events), of the ECS agent
on the instance, and of the job itself. A timestamp that any job lacks is dropped for all jobs, and
its step is merged with the next. An instance is billed from boot, which happens during RUNNABLE,
unseen by Batch and the job. Costs are therefore a lower bound, at the On-Demand price. Outside EC2
no instance is started or billed, so a cold start begins when the job gets its turn on the machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Self

from pydantic import Field

from batchmark.analysis.cost import PriceBasis
from batchmark.analysis.pooling import JobRecord, TargetRecord
from batchmark.core.prices import SECONDS_PER_HOUR
from batchmark.core.record import Record
from batchmark_job.result.document import Device, Marks

# Batch's events carry whole seconds, so timestamps may be out of order by that much.
RESOLUTION = timedelta(seconds=1)
# Each step with the timestamp at its end, from Batch's record and events or the job's marks.
STEPS = {
    "submission": "runnable_at",
    "RUNNABLE": "starting_at",
    "STARTING": "image_pull_started_at",
    "image pull": "image_pull_stopped_at",
    "container start": "container_started_at",
    "process start": "process_started_at",
    "imports": "imported_at",
    "device ready": "device_ready_at",
    "inputs": "inputs_ready_at",  # and the machine's description
    "first call": "first_call_at",
    "trial": "trial_ended_at",  # of rivals; checks against the reference
    "warm-up": "steady_at",
}
# Timestamps (as counted in STEPS) by which an instance is surely running: the end of RUNNABLE, when
# Batch has placed the job; else the end of STARTING, when the image pull begins; else the
# container's start.
BILLED = (2, 3, 5)
NO_INSTANCE = (
    "Outside EC2 no instance is started, so the time spent waiting for the machine is excluded."
)


class Step(Record):
    """The time between two known timestamps; `seconds` and `usd` are medians over the jobs."""

    name: str = Field(
        description="step name, or several joined by ', ' if a timestamp between them is unknown"
    )
    seconds: float = Field(ge=0)
    least_seconds: float = Field(ge=0)
    most_seconds: float = Field(ge=0)
    usd: float | None = Field(
        description="cost; null if there is no price or the instance is not yet known to be billed"
    )


class ColdStart(Record):
    """A target's cold start: the time and cost until steady state or the last known timestamp."""

    target: str
    jobs: int = Field(ge=1)
    steps: tuple[Step, ...]
    seconds: float = Field(ge=0, description="total time of all steps; median over the jobs")
    billed_from: str | None = Field(description="first step known to be billed; null if none is")
    billed_seconds: float = Field(
        ge=0,
        description="time from the start of the billed_from step to the end; median over the jobs",
    )
    usd: float | None = Field(
        description="cost of billed_seconds at On-Demand prices, as a lower bound; null if "
        "there is no price"
    )
    notes: tuple[str, ...]


def cold_start_of(target: TargetRecord, price: PriceBasis) -> ColdStart | None:
    """Summarise a target's cold starts, or return None if no job recorded one.

    Retried jobs, failed jobs and jobs on an instance that was already running are left out.
    """
    why = {job.job_id: _why_left_out(job) for job in target.jobs}
    jobs = [job for job in target.jobs if not why[job.job_id]]
    if not jobs:
        return None
    on_ec2 = any(job.instance_type for job in jobs)
    timeline = _Timeline.of(jobs, target.actual_device, on_ec2=on_ec2)
    if timeline.steps in ([], ["process start"]):  # the job ran as a bare process
        return None
    for reason, count in Counter(filter(None, why.values())).items():
        note = f"{count} of {len(target.jobs)} jobs are not included: {reason}."
        timeline.notes.insert(0, note)
    billed = median(timeline.seconds(timeline.billed_from)) if on_ec2 else 0.0
    return ColdStart(
        target=target.target,
        jobs=len(jobs),
        steps=tuple(timeline.step(n, price) for n in range(len(timeline.steps))),
        seconds=median(timeline.seconds(0)),
        billed_from=next(iter(timeline.steps[timeline.billed_from :]), None) if on_ec2 else None,
        billed_seconds=billed,
        usd=_usd(billed, price) if billed else None,
        notes=tuple(dict.fromkeys(timeline.notes)),
    )


def _why_left_out(job: JobRecord) -> str | None:
    if job.job_attempt > 1:
        return "they were retried"
    if job.failed:
        return "they have no result"
    return "their instance was already running" if job.start == "warm" else None


@dataclass(frozen=True)
class _Timeline:
    """The timestamps that all jobs have, in order within each job, and the steps between them."""

    moments: list[list[datetime]]
    steps: list[str]
    billed_from: int  # the first timestamp at which an instance is surely billed
    notes: list[str]

    @classmethod
    def of(cls, jobs: Sequence[JobRecord], device: Device | None, *, on_ec2: bool) -> Self:
        moments = [_moments(job) for job in jobs]
        known = [n for n, ends in enumerate(zip(*moments, strict=True)) if None not in ends]
        notes: list[str] = []
        billed_from = min(n for n in BILLED if n in known)
        if not on_ec2:
            known = [n for n in known if n >= billed_from]
            notes.append(NO_INSTANCE)
        names = [*STEPS]
        steps = [_name(names[first:after], device) for first, after in pairwise(known)]
        ordered = [
            _in_order([row[n] for n in known], steps, job, notes)
            for row, job in zip(moments, jobs, strict=True)
        ]
        return cls(ordered, steps, known.index(billed_from), notes)

    def seconds(self, start: int, end: int = -1) -> list[float]:
        """Return the seconds between two timestamps for each job."""
        return [(row[end] - row[start]).total_seconds() for row in self.moments]

    def step(self, n: int, price: PriceBasis) -> Step:
        seconds = self.seconds(n, n + 1)
        return Step(
            name=self.steps[n],
            seconds=median(seconds),
            least_seconds=min(seconds),
            most_seconds=max(seconds),
            usd=_usd(median(seconds), price) if n >= self.billed_from else None,
        )


def _usd(seconds: float, price: PriceBasis) -> float | None:
    if price.usd_per_hour is None:
        return None
    return price.usd_per_hour / SECONDS_PER_HOUR * seconds


def _moments(job: JobRecord) -> list[datetime | None]:
    """List a job's submission time and the end of each step; None for unknown timestamps.

    The container start comes from the ECS agent, or else from Batch's startedAt (RUNNING), which is
    slightly later.
    """
    told = dict.fromkeys(Marks.model_fields) | dict(job) | dict(job.marks or {})
    told["container_started_at"] = told["container_started_at"] or job.started_at
    return [job.created_at, *(told[name] for name in STEPS.values())]


def _name(steps: Sequence[str], device: Device | None) -> str:
    names = ", ".join(steps)
    if device is Device.CUDA:
        return names.replace("device ready", "device ready (CUDA start-up)")
    return names


def _in_order(
    moments: Sequence[datetime | None], names: Sequence[str], job: JobRecord, notes: list[str]
) -> list[datetime]:
    """Make timestamps non-decreasing (clocks differ), and note corrections of over a second."""
    ordered: list[datetime] = []
    for name, moment in zip(("submission", *names), filter(None, moments), strict=True):
        earliest = ordered[-1] if ordered else moment
        if earliest - moment > RESOLUTION:
            notes.append(
                f"Clocks differ: in job {job.job_id} the step '{name}' ends "
                f"{(earliest - moment).total_seconds():.1f} s before it begins; it counts as 0 s."
            )
        ordered.append(max(earliest, moment))
    return ordered
