"""Describes the machines that jobs ran on, and lists the jobs with their costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Self

from batchmark.analysis.cost import JobCost
from batchmark.analysis.pooling import JobRecord, TargetRecord
from batchmark.core.version import shortened
from batchmark.report.words import machine_property, measured_target
from batchmark_job.result.own_job import UNKNOWN

NONE = "none"
OF_ONE_JOB = {"availability_zone"}  # may differ between a target's jobs


class Machines(NamedTuple):
    """Machine properties known for at least one target: their values, and whether these differ."""

    names: list[str]
    rows: list[tuple[str, list[str], bool]]

    @classmethod
    def of(cls, targets: Sequence[TargetRecord]) -> Self:
        sides = [_properties(target) for target in targets]
        names = dict.fromkeys(name for side in sides for name in side)
        rows = [(name, [side.get(name, UNKNOWN) for side in sides]) for name in names]
        known = [(name, values) for name, values in rows if not {*values} <= {NONE, UNKNOWN}]
        return cls(
            [measured_target(target) for target in targets],
            [(name.replace("_", " "), values, len({*values}) > 1) for name, values in known],
        )


def _properties(target: TargetRecord) -> dict[str, str]:
    known = {name: text or NONE for name, text in environment(target).items()}
    return {"ran on": str(target.actual_device or "no job")} | known


def environment(target: TargetRecord) -> dict[str, str | None]:
    """Return a target's properties by name, with None for those without a value."""
    found = {name: value and shortened(name, value) for name, value in target.version}
    found |= target.environment.model_dump(exclude=OF_ONE_JOB) if target.environment else {}
    return {
        name.removesuffix("_bytes"): machine_property(name, value) for name, value in found.items()
    }


class JobLine(NamedTuple):
    target: str
    job: JobRecord
    seconds: float | None
    cost: JobCost | None
    where: str = ""  # the place in its study, such as a size


def job_lines(
    targets: Iterable[TargetRecord],
    costs: Iterable[JobCost],
    where: Mapping[str, str] | None = None,
) -> list[JobLine]:
    """List the targets' jobs; `where` maps job ids to places in the study, such as sizes."""
    by_job = {cost.job_id: cost for cost in costs}
    lines = []
    for target in targets:
        for job in target.jobs:
            cost = by_job.get(job.job_id)
            seconds = cost.seconds if cost and cost.seconds is not None else job.batch_seconds
            place = (where or {}).get(job.job_id, "")
            lines.append(JobLine(target.target, job, seconds, cost, place))
    return lines
