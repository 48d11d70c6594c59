"""Converts a collected run to history rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from batchmark.analysis.cost import job_cost, paid_per_hour
from batchmark.analysis.roofline import roofline
from batchmark.analysis.samples import median_of, parameters_json
from batchmark.core.intervals import Median
from batchmark.core.prices import PriceTable
from batchmark.core.run import CollectedJob, CollectedRun
from batchmark.history.columns import SCHEMA
from batchmark.runs.result_documents import key_of
from batchmark_job.result.document import Environment, Measurement, MeasurementStatus, Phases

Row = dict[str, Any]

WITH_STATISTICS = (MeasurementStatus.MEASURED, MeasurementStatus.UNSETTLED)
QUANTILES = {
    "min_seconds": 0.0,
    "p25_seconds": 0.25,
    "p75_seconds": 0.75,
    "p95_seconds": 0.95,
    "max_seconds": 1.0,
}
# The columns that stand in the documents, and in the plan, under the same names.
ENVIRONMENT_COLUMNS = set(Environment.model_fields) & set(SCHEMA.names)
PHASE_COLUMNS = set(Phases.model_fields) & set(SCHEMA.names)
PLANNED_COLUMNS = {"repeat", "purpose", "suite", "target"}
MEASUREMENT_COLUMNS = {
    *("workload", "dtype", "reason", "input_sets"),
    *("flops", "bytes_moved", "peak_memory_bytes", "energy_joules"),
}


def history_rows(run: CollectedRun, prices: PriceTable) -> list[Row]:
    """Return one row per measurement, with its partition keys, in the order of the jobs.

    `prices` are those that the run is charged at.
    """
    return [
        job_columns | _measurement_columns(job, row)
        for job in run.jobs
        for job_columns in [_job_columns(run.run_id, job, prices)]
        for row in job.document.measurements
    ]


def time_columns(moment: datetime) -> Row:
    """Return the columns that say when a row was recorded."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return {"recorded_at": utc, "month": f"{utc:%Y-%m}"}


def sample_columns(median: Median) -> Row:
    """Return the columns that summarise a row's samples."""
    interval = median.estimate().interval
    quantiles = np.quantile(median.samples, list(QUANTILES.values()))
    return {
        "median_seconds": median.value,
        "median_low_seconds": interval.low if interval else None,
        "median_high_seconds": interval.high if interval else None,
        "relative_spread": median.relative_spread(),
        **dict(zip(QUANTILES, map(float, quantiles), strict=True)),
    }


def _job_columns(run_id: str, job: CollectedJob, prices: PriceTable) -> Row:
    document, environment = job.document, job.document.environment
    usd_per_hour, _ = paid_per_hour(job, prices)
    return {
        "schema_version": document.schema_version,
        "run_id": run_id,
        "job_id": job.job_id,
        "job_attempt": job.job_attempt,
        **job.planned.model_dump(include=PLANNED_COLUMNS),
        "raw_key": key_of(job.document_uri),
        "requested_device": document.requested_device,
        "actual_device": document.actual_device.value,
        **environment.model_dump(include=ENVIRONMENT_COLUMNS),
        **job.version.model_dump(),
        "region": prices.region if environment.instance_type else None,
        "purchase_option": job.purchase_option,
        "process_seconds": document.total_seconds,
        "batch_seconds": job.batch_seconds,
        "price_usd_per_hour": usd_per_hour,
        "job_cost_usd": job_cost(job, prices).usd,
        **time_columns(document.finished_at),
    }


def _measurement_columns(job: CollectedJob, row: Measurement) -> Row:
    code, during = row.implementation, row.conditions_during
    return {
        **row.model_dump(include=MEASUREMENT_COLUMNS),
        "parameters": parameters_json(row.parameters),
        "status": row.status.value,
        "implementation_name": code and code.name,
        "implementation_version": code and code.version,
        "implementation_threads": code and code.threads,
        "cpu_steal_share": during and during.cpu_steal_share,
        "cpu_wait_share": during and during.cpu_wait_share,
        "relative_error": row.correctness and row.correctness.relative_error,
        **(row.phases or Phases()).model_dump(include=PHASE_COLUMNS),
        **_statistics_columns(job, row),
    }


def _statistics_columns(job: CollectedJob, row: Measurement) -> Row:
    """Return any statistics of a row as a report on this job alone would show them."""
    if row.status not in WITH_STATISTICS or not row.samples_seconds:
        return {}
    median = median_of([row])
    line = roofline(row, [job.document], median.estimate())
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
        **sample_columns(median),
    }
