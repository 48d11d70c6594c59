"""Builds a study for each of a run's comparisons and users' own jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from batchmark.analysis.own_jobs.best import best_of
from batchmark.analysis.own_jobs.figures import figures_of, place_of, place_order
from batchmark.analysis.own_jobs.records import Duel, JobSide, OwnJobStudy
from batchmark.analysis.samples import RowKey
from batchmark.analysis.sides import PricedTarget
from batchmark.core.own_jobs import MOST_BAD_LINES, OwnJobPlan
from batchmark.core.row_values import ToldMetric
from batchmark_job.result.own_job import BadLine

STUDY = OwnJobStudy


def find(groups: Iterable[Sequence[PricedTarget]]) -> Iterator[OwnJobStudy]:
    """Return studies of comparisons and users' own jobs, in the order of the run's jobs."""
    for group in groups:
        planned = [job.planned for side in group for job in side.pooled.jobs]
        planned += [lost.planned for side in group for lost in side.pooled.lost]
        if plan := next((one.own_job for one in planned if one.own_job), None):
            yield _study(group, plan)


def _study(targets: Sequence[PricedTarget], plan: OwnJobPlan) -> OwnJobStudy:
    sides = tuple(_side(target, plan.axis) for target in targets)
    duels = _duels([target for target in targets if not target.refused], plan.axis)
    return OwnJobStudy(
        name=plan.name,
        suite=targets[0].suite,
        axis=plan.axis,
        deadline_seconds=plan.deadline_seconds,
        existing=plan.existing,
        sides=sides,
        duels=duels,
        best=best_of(sides, duels, plan.deadline_seconds),
    )


def _side(target: PricedTarget, axis: str | None) -> JobSide:
    jobs = target.pooled.jobs
    told = [job.document.own_job for job in jobs if job.document.own_job]
    lines: dict[tuple[str, str, str], BadLine] = {}
    for line in (line for one in told for line in one.bad_lines):
        lines.setdefault((line.source, line.text, line.problem), line)
    left_out = max(0, len(lines) - MOST_BAD_LINES)
    by_job = (len(one.bad_lines) + one.bad_lines_left_out for one in told)
    return JobSide(
        target=target.record,
        price=target.price,
        figures=() if target.refused and jobs else figures_of(target, axis),
        cold_start=target.cold_start,
        refused=target.refused,
        bad_lines=tuple(lines.values())[:MOST_BAD_LINES],
        bad_lines_by_job=tuple(filter(None, by_job)),
        bad_lines_left_out=left_out + sum(one.bad_lines_left_out for one in told),
        metrics_left_out=sum(one.metrics_left_out for one in told),
    )


def _duels(targets: Sequence[PricedTarget], axis: str | None) -> tuple[Duel, ...]:
    """Compare each pair of poolable targets once, and return the duels ordered by place.

    The GPU target comes first, as in pairs, so that a duel and its pair share one judgement.
    """
    found = [
        _duel(key, first, second, axis)
        for both in combinations(targets, 2)
        for first, second in [sorted(both, key=lambda one: one.pooled.device != "cuda")]
        for key, samples in first.pooled.samples.items()
        if not samples.problem and (theirs := second.pooled.samples.get(key)) and not theirs.problem
    ]
    return tuple(sorted(found, key=lambda duel: (place_order(duel.place), duel.told or ())))


def _duel(key: RowKey, first: PricedTarget, second: PricedTarget, axis: str | None) -> Duel:
    judged = first.against(second, key)
    names = {"first": first.pooled.name, "second": second.pooled.name}
    told = ToldMetric.of(dict(key[1]))
    return Duel(
        place=place_of(key, axis),
        metric=told.name if told else None,
        unit=told.unit if told else None,
        higher_is_better=told.higher_is_better if told else None,
        **names,
        better=judged.faster and names[judged.faster],
        ratio=judged.ratio,
        noise=judged.noise,
    )
