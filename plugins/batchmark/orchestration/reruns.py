"""Fresh jobs for suspects: planned within the budget, collected, and what they measured."""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import UTC, datetime
from statistics import median
from typing import TYPE_CHECKING, Any

from batchmark.budget import RUN_CAP, check_cap, exact, refusals, worst_case
from batchmark.change_records import SeriesKey
from batchmark.collecting import collect_run
from batchmark.fingerprint import Fingerprint
from batchmark.noise_density import Prior
from batchmark.price_fetching import stored_prices
from batchmark.run import CONFIRMATION, CollectedRun, RunPlan
from batchmark.series import kept_samples, parameters_json
from batchmark.spending import month_spending, run_spending
from batchmark.store import rerun_name
from batchmark.suspects import JOBS_OF_ROUND
from batchmark_job.result import MeasurementStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from batchmark.config import Config
    from batchmark.noise import NoiseTable
    from batchmark.run import CollectedJob, LostJob, PlannedJob
    from batchmark.spending import RunSpending
    from batchmark.store import RunStore
    from batchmark.suspects import Suspect
    from batchmark_job.result import Measurement

MOST_RUNS_OF_A_CALIBRATION = 5  # it counts for: jobs of one day differ less than those of a year


def plan_round(number: int, planned: Sequence[PlannedJob], targets: Iterable[str]) -> RunPlan:
    """The fresh jobs of a round, counted from 1: some for each target.

    Args:
        planned: the run's own jobs, all of one suite and dtype.
    """
    before = max(job.repeat for job in planned) + sum(JOBS_OF_ROUND[: number - 1])
    first = {job.target: job for job in reversed(planned)}
    return RunPlan(
        jobs=tuple(
            _again(first[target], before + count)
            for target in targets
            for count in range(1, JOBS_OF_ROUND[number - 1] + 1)
        )
    )


def _again(job: PlannedJob, repeat: int) -> PlannedJob:
    folder = job.result_prefix.removesuffix(f"/{job.repeat}/")
    return job.model_copy(
        update={
            "repeat": repeat,
            "purpose": CONFIRMATION,
            "result_prefix": f"{folder}/{repeat}/",
        }
    )


def reserve(
    store: RunStore,
    config: Config,
    plan: RunPlan,
    targets: Collection[str],
    max_cost_usd: object,
) -> str | None:
    """Book the most that the fresh jobs of all rounds can cost; None, or why they may not run.

    Args:
        plan: the run's own.
        max_cost_usd: of the whole run, its fresh jobs included.
    """
    jobs = [
        job
        for number in range(1, len(JOBS_OF_ROUND) + 1)
        for job in plan_round(number, plan.jobs, targets).jobs
    ]
    now = datetime.now(UTC)
    worst = worst_case(config, jobs, stored_prices(store, config.region, now), now)
    cap = check_cap(RUN_CAP, max_cost_usd)
    key = plan.spending_key
    record = run_spending(store, key) if key else None
    if key and record is None:
        return f"the run's own booking is gone ({key}), so what it has spent is not known"
    spent = record.model_copy(update={"reserved_usd": 0.0}) if record else None
    used = float(spent.exact_usd) if spent else 0.0
    whole = (
        cap is not None and worst.usd is not None and exact(worst.usd) + exact(used) > exact(cap)
    )
    if whole:
        return (
            f"{len(jobs)} fresh jobs could cost {worst.usd:.2f} USD, and {RUN_CAP} leaves "
            f"{max(0.0, cap - used) if cap is not None else 0:.2f}"
        )
    month_cap = config.monthly_cap_usd if key else None
    month = month_spending(store, key).without(key, spent) if key else None
    reasons = refusals(worst, max_cost_usd=cap, month=month, monthly_cap_usd=month_cap)
    if not reasons and key and record and spent:
        _book(store, key, spent, worst.usd)
        # With that in the sum: of two that book at a time the last one sees both.
        month = month_spending(store, key).without(key, spent)
        reasons = refusals(worst, max_cost_usd=None, month=month, monthly_cap_usd=month_cap)
        if reasons:
            store.put(key, record.model_dump_json(indent=2))
    return " ".join(reasons) or None


def _book(store: RunStore, key: str, spent: RunSpending, usd: float | None) -> None:
    booked = spent.model_copy(update={"finished": False}).reserving(usd)
    store.put(key, booked.model_dump_json(indent=2))


def collect_rounds(
    store: RunStore,
    batch: Any,
    logs: Any,
    *,
    run_id: str,
    config: Config,
    rounds: int,
    told_ids: Callable[[int, int], Sequence[str | None]],
) -> CollectedRun:
    """What the fresh jobs of some rounds left; none where none was planned.

    Args:
        batch, logs: boto3 clients.
        told_ids: the ids that the tasks of a round told, for so many jobs.
    """
    jobs: list[CollectedJob] = []
    lost: list[LostJob] = []
    superseded: list[LostJob] = []
    for number in range(1, rounds + 1):
        text = store.read_if_there(store.prefix + rerun_name(number))
        planned = RunPlan.model_validate_json(text).jobs if text else ()
        if planned:
            found = collect_run(
                store,
                batch,
                logs,
                run_id=run_id,
                planned=planned,
                job_ids=told_ids(number, len(planned)),
                config=config,
            )
            jobs += found.jobs
            lost += found.lost
            superseded += found.superseded
    return CollectedRun(
        run_id=run_id, jobs=tuple(jobs), lost=tuple(lost), superseded=tuple(superseded)
    )


def figures_of(
    suspect: Suspect, jobs: Iterable[CollectedJob]
) -> Iterator[tuple[CollectedJob, float]]:
    """The fresh jobs that measured a suspect's very series, with their medians in seconds."""
    for job in jobs:
        for row in job.document.measurements:
            if row.status is MeasurementStatus.MEASURED and key_of(job, row) == suspect.series:
                yield job, row_median(row)


def row_median(row: Measurement) -> float:
    return median(kept_samples(row))


def key_of(job: CollectedJob, row: Measurement) -> SeriesKey:
    """The series that a measured row belongs to."""
    environment = job.document.environment
    return SeriesKey(
        suite=job.planned.suite,
        target=job.planned.target,
        actual_device=job.document.actual_device,
        instance_type=environment.instance_type,
        cpu_model=environment.cpu_model,
        gpu_model=environment.gpu_model,
        workload=row.workload,
        parameters=parameters_json(row.parameters),
        dtype=row.dtype,
    )


def uncertainties(jobs: Iterable[CollectedJob]) -> dict[SeriesKey, float]:
    """How far each row's median may be off by the samples inside its job, relative to it."""
    found: dict[SeriesKey, float] = defaultdict(float)
    for job in jobs:
        for row in job.document.measurements:
            if row.stopping and row.stopping.relative_half_width:
                key = key_of(job, row)
                found[key] = max(found[key], row.stopping.relative_half_width)
    return dict(found)


def calibrated(
    tables: Iterable[NoiseTable], jobs: Sequence[CollectedJob]
) -> dict[SeriesKey, Prior]:
    """What the calibrations that still apply say of each row's noise."""
    by_target = {(table.suite, table.dtype, table.target): table for table in tables}
    found = {}
    for job in jobs:
        table = by_target.get((job.planned.suite, job.planned.dtype, job.planned.target))
        if table is None or table.fingerprint.differences(Fingerprint.of(job.document)):
            continue
        floors = {
            (one.row.workload, parameters_json(one.row.parameters), one.row.dtype): one
            for one in table.series
        }
        for row in job.document.measurements:
            one = floors.get((row.workload, parameters_json(row.parameters), row.dtype))
            if one is not None:
                runs = min(one.jobs, MOST_RUNS_OF_A_CALIBRATION)
                found[key_of(job, row)] = Prior(math.log1p(one.floor), runs)
    return found
