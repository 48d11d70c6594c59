"""Builds a study for each task that shared a device, with curves, advice and experiments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from pydantic import Field

from batchmark.analysis.samples import codes_of, parameters_json
from batchmark.analysis.sharing.advice import Advice, advise
from batchmark.analysis.sharing.curves import (
    Curve,
    SharedSamples,
    Unmeasured,
    curves_of,
    task_parameters,
)
from batchmark.analysis.sharing.experiments import Experiment, experiments_of
from batchmark.analysis.sides import PricedTarget
from batchmark.analysis.study import TargetStudy
from batchmark.core.run import LostJob
from batchmark_job.result.document import Implementation
from batchmark_job.result.values import Parameter


class SharedTask(TargetStudy):
    """A task that shared a target's device."""

    workload: str
    parameters: dict[str, Parameter] = Field(description="the task's own parameters")
    dtype: str
    threads: int | None = Field(description="CPU threads per replica; null if unknown")
    codes: tuple[Implementation, ...] = Field(
        default=(),
        description="different implementations that replicas ran; each job chooses its own",
    )
    mig_enabled: bool = Field(
        default=False, description="whether a GPU that its jobs used was partitioned with MIG"
    )
    refused: str | None = Field(description="why nothing was judged")
    curves: tuple[Curve, ...]
    advice: Advice
    experiments: tuple[Experiment, ...]


STUDY = SharedTask


def find(groups: Iterable[Iterable[PricedTarget]]) -> Iterator[SharedTask]:
    """Return all tasks that shared a device, in the order of the run's jobs."""
    return (task for group in groups for side in group for task in _of_target(side))


def _of_target(side: PricedTarget) -> Iterator[SharedTask]:
    tasks: dict[tuple[str, str, str], list[SharedSamples]] = defaultdict(list)
    for (workload, parameters, dtype), pooled in side.pooled.samples.items():
        if samples := SharedSamples.of(pooled, side.price):
            own = parameters_json(task_parameters(dict(parameters)))
            tasks[workload, own, dtype].append(samples)
    for (workload, _, dtype), found in tasks.items():
        row = found[0].pooled.row
        curves = () if side.refused else curves_of(found)
        curves = tuple(_with_lost(curve, side.pooled.lost) for curve in curves)
        codes = codes_of(one.pooled for one in found)
        yield SharedTask(
            suite=side.suite,
            target=side.record,
            workload=workload,
            parameters=task_parameters(row.parameters),
            dtype=dtype,
            threads=codes[0].threads if codes else None,
            codes=codes,
            mig_enabled=any(sharing.mig_enabled for one in found for sharing in one.rows),
            price=side.price,
            refused=side.refused,
            curves=curves,
            advice=advise(curves),
            experiments=() if side.refused else tuple(experiments_of(found)),
        )


def _with_lost(curve: Curve, lost: Sequence[LostJob]) -> Curve:
    """Add to a curve the replica counts whose jobs left no result."""
    found = {one.replicas for one in curve.points} | {one.replicas for one in curve.unmeasured}
    missing = {}
    for job in lost:
        plan = job.planned.sharing
        if plan and plan.form == curve.form and curve.mode in plan.modes:
            missing.update({each: job.left_nothing for each in plan.replicas if each not in found})
    unmeasured = [Unmeasured(replicas=each, reason=reason) for each, reason in missing.items()]
    both = sorted((*curve.unmeasured, *unmeasured), key=lambda one: one.replicas)
    return curve.model_copy(update={"unmeasured": tuple(both)})
