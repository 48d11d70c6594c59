"""The way of a target's jobs from submission to steady state: where time and money go.

Moments come from three clocks: Batch's record and events, the ECS agent on the instance, and the
job itself. A moment that is not known in every job is left out, and its step belongs to the next.
An instance is billed from its boot, which lies inside RUNNABLE and which neither Batch nor the job
sees, so dollars are the least that the time costs at the On-Demand price.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from pydantic import Field

from batchmark.cost import SECONDS_PER_HOUR
from batchmark.record import Record
from batchmark_job.result import Device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batchmark.cost import PriceBasis
    from batchmark.pooling import JobRecord, TargetRecord

# Events of Batch carry whole seconds: that much may one moment lie before the one that it follows.
RESOLUTION = timedelta(seconds=1)
STEPS = (
    "submission",
    "RUNNABLE",
    "STARTING",
    "image pull",
    "container start",
    "process start",
    "imports",
    "device ready",
    "inputs",  # and the machine's description
    "first call",
    "trial",  # of rivals; checks against the reference
    "warm-up",
)
# Moments that an instance surely runs at: the end of RUNNABLE, where Batch has placed the job; else
# the end of STARTING, where the image's pull begins; else the container's start.
BILLED = (2, 3, 5)


class Step(Record):
    """What happened between two known moments; all figures are medians over the jobs."""

    name: str = Field(description="several joined by ', ' where a moment between is not known")
    seconds: float = Field(ge=0)
    least_seconds: float = Field(ge=0)
    most_seconds: float = Field(ge=0)
    usd: float | None = Field(description="null before the instance is known to be billed")


class Ledger(Record):
    """One target's jobs from submission to steady state, or as far as they tell."""

    target: str
    jobs: int = Field(ge=1)
    steps: tuple[Step, ...]
    seconds: float = Field(ge=0, description="of all steps; median over the jobs")
    billed_from: str | None = Field(description="first step known to be billed; null if none is")
    billed_seconds: float = Field(ge=0, description="from there on; median over the jobs")
    usd: float | None = Field(
        description="of the billed seconds, so the least it costs On-Demand; null without a price"
    )
    notes: tuple[str, ...]


def ledger_of(target: TargetRecord, price: PriceBasis) -> Ledger | None:
    """None where no job went its way at the first attempt."""
    jobs = [job for job in target.jobs if job.job_attempt == 1]
    if not jobs:
        return None
    moments = [_moments(job) for job in jobs]
    known = [n for n in range(len(STEPS) + 1) if all(one[n] is not None for one in moments)]
    names = [
        ", ".join(_name(n, target) for n in range(start, end)) for start, end in pairwise(known)
    ]
    notes = []
    if retried := len(target.jobs) - len(jobs):
        notes.append(f"{retried} of {len(target.jobs)} jobs are left out: they were retried.")
    ordered = [
        _in_order([one[n] for n in known], names, job, notes)
        for one, job in zip(moments, jobs, strict=True)
    ]
    billed_from = min(known.index(n) for n in BILLED if n in known)
    rate = None if price.usd_per_hour is None else price.usd_per_hour / SECONDS_PER_HOUR
    steps = []
    for n, name in enumerate(names):
        seconds = [(one[n + 1] - one[n]).total_seconds() for one in ordered]
        steps.append(
            Step(
                name=name,
                seconds=median(seconds),
                least_seconds=min(seconds),
                most_seconds=max(seconds),
                usd=rate * median(seconds) if rate is not None and n >= billed_from else None,
            )
        )
    billed = median((one[-1] - one[billed_from]).total_seconds() for one in ordered)
    return Ledger(
        target=target.target,
        jobs=len(jobs),
        steps=tuple(steps),
        seconds=median((one[-1] - one[0]).total_seconds() for one in ordered),
        billed_from=names[billed_from] if billed_from < len(names) else None,
        billed_seconds=billed,
        usd=rate * billed if rate is not None and billed else None,
        notes=tuple(dict.fromkeys(notes)),
    )


def _moments(job: JobRecord) -> list[datetime | None]:
    """The submission, then the end of each step.

    The container's start is the ECS agent's, or Batch's RUNNING (startedAt), which comes a little
    later.
    """
    asked = (job.created_at, job.runnable_at, job.starting_at)
    if (marks := job.marks) is None:
        return [*asked, None, None, job.started_at, *[None] * 7]
    return [
        *asked,
        marks.image_pull_started_at,
        marks.image_pull_stopped_at,
        marks.container_started_at or job.started_at,
        marks.process_started_at,
        marks.imported_at,
        marks.device_ready_at,
        marks.inputs_ready_at,
        marks.first_call_at,
        marks.trial_ended_at,
        marks.steady_at,
    ]


def _name(step: int, target: TargetRecord) -> str:
    name = STEPS[step]
    on_gpu = name == "device ready" and target.actual_device is Device.CUDA
    return f"{name} (CUDA start-up)" if on_gpu else name


def _in_order(
    moments: Sequence[datetime | None], names: Sequence[str], job: JobRecord, notes: list[str]
) -> list[datetime]:
    """No moment before the one that it follows: clocks differ."""
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
