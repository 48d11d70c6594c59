"""Plans fresh jobs for suspects, within the budget, and gathers their measurements."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from statistics import median
from typing import Any

from batchmark.analysis.judging.noise import NoiseTable
from batchmark.analysis.samples import kept_samples, parameters_json
from batchmark.aws.price_list import stored_prices
from batchmark.aws.result_bucket import RunStore
from batchmark.changes.noise_model import Prior
from batchmark.changes.records import SeriesKey
from batchmark.changes.suspects import JOBS_OF_ROUND
from batchmark.core.config import Config
from batchmark.core.fingerprint import Fingerprint
from batchmark.core.prices import exact
from batchmark.core.run import CONFIRMATION, CollectedJob, PlannedJob, RunPlan, WorstCase
from batchmark.history.rows import Row
from batchmark.history.series import MACHINE, POINT
from batchmark.runs.budget import RUN_CAP, book, refusals, worst_case
from batchmark.runs.spending import month_spending, run_spending
from batchmark_job.result.document import Measurement, MeasurementStatus
from batchmark_job.result.own_job import START

# A calibration counts for at most this many runs: jobs of one day differ less than those of a year.
MOST_RUNS_OF_A_CALIBRATION = 5


def plan_round(number: int, planned: Sequence[PlannedJob], rows: Iterable[SeriesKey]) -> RunPlan:
    """Plan a round of fresh jobs that repeat the jobs that measured these rows.

    Rounds are numbered from 1. `planned` contains the run's own jobs, all of one suite and dtype.
    """
    before = max(job.repeat for job in planned) + sum(JOBS_OF_ROUND[: number - 1])
    measuring = [_measuring(row, planned) for row in rows]
    repeated = {(job.target, job.name): job for job in measuring}
    return RunPlan(
        jobs=tuple(
            _rerun_of(job, before + count)
            for job in repeated.values()
            for count in range(1, JOBS_OF_ROUND[number - 1] + 1)
        )
    )


def _measuring(row: SeriesKey, planned: Sequence[PlannedJob]) -> PlannedJob:
    """Return the first of a run's jobs that measured a row.

    A target's array jobs differ in replica count, its multi-node jobs in node count and the
    settings that a study varies, and users' own jobs in size.
    """
    of_target = [job for job in planned if job.target == row.target]
    parameters = json.loads(row.parameters or "{}")
    return next((job for job in of_target if _has(job, parameters)), of_target[0])


def _has(job: PlannedJob, parameters: Mapping[str, Any]) -> bool:
    if plan := job.scaling:
        settings = plan.settings.model_dump()
        named = {name: parameters[name] for name in settings if name in parameters}
        varied = {name: settings[name] for name in plan.varied}
        return plan.nodes == parameters.get("nodes") and varied == named
    if own := job.own_job:
        return own.axis is None or own.size == parameters.get(own.axis)
    return job.sharing is not None and job.sharing.separate_replicas == parameters.get("replicas")


def can_be_repeated(row: SeriesKey) -> bool:
    """Return whether a fresh job could measure the row again.

    It can't if the row needs a cold instance, or a cold file system, which a run has only once.
    """
    parameters: dict[str, object] = json.loads(row.parameters or "{}")
    return "cold" not in (parameters.get("pass"), parameters.get(START))


def _rerun_of(job: PlannedJob, repeat: int) -> PlannedJob:
    folder = job.result_prefix.removesuffix(f"/{job.repeat}/")
    warm = job.scaling.model_copy(update={"passes": ("warm",)}) if job.scaling else None
    return job.model_copy(
        update={
            "repeat": repeat,
            "purpose": CONFIRMATION,
            "result_prefix": f"{folder}/{repeat}/",
            "scaling": warm,
        }
    )


def reserve(
    store: RunStore,
    config: Config,
    plan: RunPlan,
    rows: Collection[SeriesKey],
    max_cost_usd: float | None,
) -> str | None:
    """Book the worst case for all fresh jobs for these rows; return why it was refused, or None.

    Any file system of the run already exists, so only its cost while the fresh jobs run is added.

    Plans from older releases have no booking. The cap applies to the whole run with its fresh jobs.
    """
    jobs = [
        job
        for number in range(1, len(JOBS_OF_ROUND) + 1)
        for job in plan_round(number, plan.jobs, rows).jobs
    ]
    now = datetime.now(UTC)
    prices = stored_prices(store, config.region, now)
    worst = worst_case(config, jobs, prices, now, plan.file_system, stands=True)
    key = plan.spending_key
    if key is None:
        reason = _above_run_cap(worst, exact(0), max_cost_usd, len(jobs))
        return reason or " ".join(refusals(worst, max_cost_usd=max_cost_usd)) or None
    booked = run_spending(store, key)
    if booked is None:
        return (
            f"the run's spending record is missing or invalid ({key}), so its spending is unknown"
        )
    spent = booked.model_copy(update={"reserved_usd": 0.0})
    if reason := _above_run_cap(worst, spent.exact_usd, max_cost_usd, len(jobs)):
        return reason
    reasons = refusals(
        worst,
        max_cost_usd=max_cost_usd,
        month=month_spending(store, key).without(key, spent),
        monthly_cap_usd=config.monthly_cap_usd,
    ) or book(store, key, spent, worst, monthly_cap_usd=config.monthly_cap_usd, if_refused=booked)
    return " ".join(reasons) or None


def _above_run_cap(
    worst: WorstCase, spent_usd: Fraction, max_cost_usd: float | None, jobs: int
) -> str | None:
    if max_cost_usd is None or worst.usd is None:
        return None
    left = exact(max_cost_usd) - spent_usd
    if exact(worst.usd) <= left:
        return None
    return (
        f"{jobs} fresh jobs could cost {worst.usd:.2f} USD, but {RUN_CAP} leaves only "
        f"{max(0.0, float(left)):.2f} USD"
    )


def figures_by_series(
    jobs: Iterable[CollectedJob],
) -> dict[SeriesKey, list[tuple[CollectedJob, float]]]:
    """Return the jobs that measured each series, each with the median of its samples."""
    found = defaultdict(list)
    for job in jobs:
        for row in job.document.measurements:
            if row.status is MeasurementStatus.MEASURED:
                found[_series_of(job, row)].append((job, median(kept_samples(row))))
    return found


def _series_of(job: CollectedJob, row: Measurement) -> SeriesKey:
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


def uncertainties(rows: Iterable[Row]) -> dict[SeriesKey, float]:
    """Return each series' relative uncertainty: the largest that any of its rows' medians has."""
    found: dict[SeriesKey, float] = defaultdict(float)
    for row in rows:
        if half := row["relative_half_width"]:
            key = series_of_row(row)
            found[key] = max(found[key], half)
    return dict(found)


def calibrated_noise(tables: Iterable[NoiseTable], rows: Iterable[Row]) -> dict[SeriesKey, Prior]:
    """Return the noise in a run's series, according to the calibrations that still apply."""
    by_target = {table.target: table for table in tables}
    noises = {
        (name, noise.row.workload, parameters_json(noise.row.parameters), noise.row.dtype): noise
        for name, table in by_target.items()
        for noise in table.rows
    }
    found = {}
    for row in rows:
        noise = noises.get((row["target"], *(row[name] for name in POINT)))
        if noise is None:
            continue
        if not by_target[row["target"]].fingerprint.differences(Fingerprint.of_row(row)):
            runs = min(noise.jobs, MOST_RUNS_OF_A_CALIBRATION)
            found[series_of_row(row)] = Prior(math.log1p(noise.floor), runs)
    return found


def series_of_row(row: Row) -> SeriesKey:
    return SeriesKey(**{name: row[name] for name in (*MACHINE, *POINT)})
