"""The rows that a collected run adds to the history."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np

from batchmark.cost import job_cost, paid_per_hour
from batchmark.documents import key_of
from batchmark.estimate import Median
from batchmark.history.columns import SCHEMA
from batchmark.roofline import roofline
from batchmark.series import kept_samples, parameters_json, row_key
from batchmark_job.result import Environment, MeasurementStatus, Phases

if TYPE_CHECKING:
    from datetime import datetime

    from batchmark.prices import PriceTable
    from batchmark.run import CollectedJob, CollectedRun
    from batchmark_job.result import Measurement

Row = dict[str, Any]

WITH_STATISTICS = (MeasurementStatus.MEASURED, MeasurementStatus.UNSETTLED)
QUANTILES = {
    "min_seconds": 0.0,
    "p25_seconds": 0.25,
    "p75_seconds": 0.75,
    "p95_seconds": 0.95,
    "max_seconds": 1.0,
}
OF_ENVIRONMENT = set(Environment.model_fields) & set(SCHEMA.names)


def rows_of(run: CollectedRun, prices: PriceTable) -> list[Row]:
    """One row per measurement, in the order of the jobs: columns and partition keys by name.

    Args:
        prices: those that the run was planned with.
    """
    return [
        of_job | _of_measurement(job, row)
        for job in run.jobs
        for of_job in [_of_job(run.run_id, job, prices)]
        for row in job.document.measurements
    ]


def when(moment: datetime) -> Row:
    """The columns that say when a row was recorded."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return {"recorded_at": utc, "month": f"{utc:%Y-%m}"}


def figures_of(middle: Median) -> Row:
    """What samples in seconds say of a call."""
    interval = middle.estimate().interval
    quantiles = np.quantile(middle.samples, list(QUANTILES.values()))
    return {
        "median_seconds": middle.value,
        "median_low_seconds": interval.low if interval else None,
        "median_high_seconds": interval.high if interval else None,
        "relative_spread": middle.relative_spread(),
        **dict(zip(QUANTILES, map(float, quantiles), strict=True)),
    }


def _of_job(run_id: str, job: CollectedJob, prices: PriceTable) -> Row:
    planned, document = job.planned, job.document
    environment = document.environment
    usd_per_hour, _ = paid_per_hour(job, prices)
    return {
        "schema_version": document.schema_version,
        "run_id": run_id,
        "job_id": job.job_id,
        "job_attempt": job.job_attempt,
        "repeat": planned.repeat,
        "purpose": planned.purpose,
        "raw_key": key_of(job.document_uri),
        "suite": planned.suite,
        "target": planned.target,
        "requested_device": document.requested_device,
        "actual_device": document.actual_device.value,
        **environment.model_dump(include=OF_ENVIRONMENT),
        "region": prices.region if environment.instance_type else None,
        "purchase_option": job.purchase_option,
        "process_seconds": document.total_seconds,
        "batch_seconds": (job.stopped_at - job.started_at).total_seconds(),
        "price_usd_per_hour": usd_per_hour,
        "job_cost_usd": job_cost(job, prices).usd,
        **when(document.finished_at),
    }


def _of_measurement(job: CollectedJob, row: Measurement) -> Row:
    code, during = row.implementation, row.conditions_during
    return {
        "workload": row.workload,
        "parameters": parameters_json(row.parameters),
        "dtype": row.dtype,
        "status": row.status.value,
        "reason": row.reason,
        "implementation_name": code and code.name,
        "implementation_version": code and code.version,
        "implementation_threads": code and code.threads,
        "input_sets": row.input_sets,
        "cpu_steal_share": during and during.cpu_steal_share,
        "cpu_wait_share": during and during.cpu_wait_share,
        "flops": row.flops,
        "bytes_moved": row.bytes_moved,
        "peak_memory_bytes": row.peak_memory_bytes,
        "energy_joules": row.energy_joules,
        "relative_error": row.correctness and row.correctness.relative_error,
        **(row.phases or Phases()).model_dump(),
        **_statistics(job, row),
    }


def _statistics(job: CollectedJob, row: Measurement) -> Row:
    """Of samples that are complete; the interval is that of a report on this job alone."""
    if row.status not in WITH_STATISTICS or not row.samples_seconds:
        return {}
    middle = Median([kept_samples(row)], seed=f"{job.planned.target} {row_key(row)}")
    line = roofline(row, [job.document], middle.estimate())
    flops, moved = (line.flops_per_second, line.bytes_per_second) if line else (None, None)
    return {
        "samples": len(row.samples_seconds),
        "stopping": row.stopping and row.stopping.criterion,
        "relative_half_width": row.stopping and row.stopping.relative_half_width,
        "throttled_samples": len(row.throttled_samples),
        "outlier_samples": len(row.outlier_samples),
        "multimodal": row.multimodal,
        "cold_seconds": row.cold_seconds,
        "flops_per_second": flops and flops.value,
        "bytes_per_second": moved and moved.value,
        "compute_ceiling_share": line and line.compute_share,
        "memory_ceiling_share": line and line.memory_share,
        **figures_of(middle),
    }
