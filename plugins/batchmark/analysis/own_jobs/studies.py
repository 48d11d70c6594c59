"""What a run says of own jobs, each on all its targets or sides."""

from __future__ import annotations

from collections.abc import Sequence

from batchmark.analysis.cold_start import cold_start_of
from batchmark.analysis.cost import price_basis
from batchmark.analysis.own_jobs.best import best_of
from batchmark.analysis.own_jobs.duels import duels_of
from batchmark.analysis.own_jobs.figures import figures_of
from batchmark.analysis.own_jobs.records import JobSide, OwnJobStudy
from batchmark.analysis.pooling import TargetJobs, group_jobs
from batchmark.core.own_jobs import MOST_BAD_LINES, OwnJobPlan
from batchmark.core.prices import PriceTable
from batchmark.core.run import CollectedRun
from batchmark_job.result.own_job import BadLine


def own_job_studies(run: CollectedRun, prices: PriceTable) -> tuple[OwnJobStudy, ...]:
    """One for each own job or comparison, in the order of the run's jobs."""
    found = []
    for (suite, _), targets in group_jobs(run).items():
        planned = [job.planned for target in targets for job in target.jobs]
        planned += [lost.planned for target in targets for lost in target.lost]
        if plan := next((one.own_job for one in planned if one.own_job), None):
            found.append(_study(suite, targets, plan, prices))
    return tuple(found)


def _study(
    suite: str, targets: Sequence[TargetJobs], plan: OwnJobPlan, prices: PriceTable
) -> OwnJobStudy:
    sides = tuple(_side(target, plan.axis, prices) for target in targets)
    duels = duels_of([target for target in targets if not target.refusal()], plan.axis)
    return OwnJobStudy(
        name=plan.name,
        suite=suite,
        axis=plan.axis,
        deadline_seconds=plan.deadline_seconds,
        existing=plan.existing,
        sides=sides,
        duels=duels,
        best=best_of(sides, duels, plan.deadline_seconds),
    )


def _side(target: TargetJobs, axis: str | None, prices: PriceTable) -> JobSide:
    record, refused = target.record(), target.refusal()
    price = price_basis(record, prices)
    told = [job.document.own_job for job in target.jobs if job.document.own_job]
    lines: dict[tuple[str, str, str], BadLine] = {}
    for line in (line for one in told for line in one.bad_lines):
        lines.setdefault((line.source, line.text, line.problem), line)
    left_out = max(0, len(lines) - MOST_BAD_LINES)
    return JobSide(
        target=record,
        price=price,
        figures=() if refused and target.jobs else figures_of(target, axis, price),
        cold_start=cold_start_of(record, price),
        refused=refused,
        bad_lines=tuple(lines.values())[:MOST_BAD_LINES],
        bad_lines_left_out=left_out + sum(one.bad_lines_left_out for one in told),
        metrics_left_out=sum(one.metrics_left_out for one in told),
    )
