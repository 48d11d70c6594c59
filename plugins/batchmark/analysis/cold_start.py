"""A target's cold start: where time and money go from a job's submission to its steady state.

Timestamps come from three clocks: Batch's record and events, the ECS agent on the instance, and the
job itself. A timestamp that some job lacks is left out, and its step is joined with the next one.
An instance is billed from its boot. That falls within RUNNABLE, and neither Batch nor the job sees
it, so dollars are a lower bound, at the On-Demand price.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from pydantic import Field

from batchmark.core.prices import SECONDS_PER_HOUR
from batchmark.core.record import Record
from batchmark_job.result import Device

if TYPE_CHECKING:
    from batchmark.analysis.cost import PriceBasis
    from batchmark.analysis.pooling import JobRecord, TargetRecord

# Batch's events carry whole seconds, so a timestamp may precede the one it follows by that much.
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
# Timestamps (as counted in STEPS) by which an instance is surely running: the end of RUNNABLE, when
# Batch has placed the job; else the end of STARTING, when the image pull begins; else the
# container's start.
BILLED = (2, 3, 5)


class Step(Record):
    """What happened between two known timestamps; `seconds` and `usd` are medians over the jobs."""

    name: str = Field(description="several, joined by ', ', where a timestamp between is not known")
    seconds: float = Field(ge=0)
    least_seconds: float = Field(ge=0)
    most_seconds: float = Field(ge=0)
    usd: float | None = Field(description="null before the instance is known to be billed")


class ColdStart(Record):
    """One target's jobs from submission to steady state, or to the last known timestamp."""

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


def cold_start_of(target: TargetRecord, price: PriceBasis) -> ColdStart | None:
    """The cold start of a target's jobs; None where every job was retried or lost."""
    jobs = [job for job in target.jobs if job.job_attempt == 1]
    if not jobs:
        return None
    all_moments = [_moments(job) for job in jobs]
    known = [n for n, ends in enumerate(zip(*all_moments, strict=True)) if None not in ends]
    names = [
        ", ".join(_name(n, target) for n in range(start, end)) for start, end in pairwise(known)
    ]
    notes = []
    if retried := len(target.jobs) - len(jobs):
        notes.append(f"{retried} of {len(target.jobs)} jobs are left out: they were retried.")
    ordered = [
        _in_order([moments[n] for n in known], names, job, notes)
        for moments, job in zip(all_moments, jobs, strict=True)
    ]
    billed_from = min(known.index(n) for n in BILLED if n in known)
    rate = None if price.usd_per_hour is None else price.usd_per_hour / SECONDS_PER_HOUR
    steps = []
    for n, name in enumerate(names):
        seconds = [(moments[n + 1] - moments[n]).total_seconds() for moments in ordered]
        steps.append(
            Step(
                name=name,
                seconds=median(seconds),
                least_seconds=min(seconds),
                most_seconds=max(seconds),
                usd=rate * median(seconds) if rate is not None and n >= billed_from else None,
            )
        )
    billed = median((moments[-1] - moments[billed_from]).total_seconds() for moments in ordered)
    return ColdStart(
        target=target.target,
        jobs=len(jobs),
        steps=tuple(steps),
        seconds=median((moments[-1] - moments[0]).total_seconds() for moments in ordered),
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
    """The timestamps, none before its predecessor: clocks differ, and a note says by how much."""
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
