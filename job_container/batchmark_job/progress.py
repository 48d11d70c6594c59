"""Describes a measured row in the job's log: one line of figures, plus any warnings."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from batchmark_job.formatting import count, duration
from batchmark_job.result.document import Implementation, Measurement, MeasurementStatus

if TYPE_CHECKING:
    from batchmark_job.measuring.measured_row import MeasuredRow

NOTEWORTHY_SHARE = 0.1  # of the samples; the document lists every one
FIRST_ESTIMATE = 0.05  # of the turns; earlier, the time left would be a guess
STOPPED_BY = {
    "precise": "precise enough",
    "max_samples": "as many as allowed",
    "max_seconds": "time is up",
}


def describe(measurement: Measurement) -> str:
    row = f"{point_name(measurement.workload, measurement)}:"
    if measurement.status is not MeasurementStatus.MEASURED:
        return f"{row} {measurement.status.upper()}, {measurement.reason}"
    samples = measurement.samples_seconds
    low, median, high = np.quantile(samples, [0.25, 0.5, 0.75])
    stopping, by = measurement.stopping, measurement.implementation
    rate = f" ({measurement.items / median:.4g} images/s)" if measurement.items else ""
    return (
        f"{row} median {duration(median)}{rate}, "
        f"middle half {duration(low)} to {duration(high)}, "
        f"{len(samples)} samples ({STOPPED_BY[stopping.criterion] if stopping else 'ended'}), "
        f"cold {duration(measurement.cold_seconds or 0.0)}, {name_and_threads(by) if by else ''}"
    )


def describe_first_turn(row: MeasuredRow) -> str:
    """Describe a row in one line after its first turn, which chose the implementation."""
    seconds = row.turns[0].seconds
    turns = row.limits.processes * row.limits.turns
    return (
        f"{point_name(row.workload.name, row)}: turn 1 of {turns}: "
        f"median {duration(statistics.median(seconds))}, {len(seconds)} samples"
    )


def time_left(rows: Sequence[MeasuredRow], seconds: float) -> str:
    """Estimate the remaining time from the turns taken so far.

    The result is empty at the beginning and at the end. First turns take longest, because they
    include choosing the implementation, so the estimate tends to be too high.
    """
    done = statistics.mean(_share_done(row) for row in rows)
    if not FIRST_ESTIMATE < done < 1:
        return ""
    left = seconds * (1 - done) / done
    return f"; about {left:.0f} s left" if left < 120 else f"; about {left / 60:.0f} min left"


def _share_done(row: MeasuredRow) -> float:
    if row.measurement is not None:
        return 1.0
    return min(1.0, len(row.turns) / (row.limits.processes * row.limits.turns))


def has_figures(measurement: Measurement) -> bool:
    return measurement.status in {MeasurementStatus.MEASURED, MeasurementStatus.UNSETTLED}


def point_name(workload: str, row: MeasuredRow | Measurement) -> str:
    parameters = " ".join(f"{name}={value}" for name, value in row.parameters.items())
    return f"{workload} {parameters} {row.dtype}"


def name_and_threads(implementation: Implementation) -> str:
    threads = implementation.threads
    return implementation.name + (f" on {count(threads, 'thread')}" if threads else "")


def warnings(measurement: Measurement) -> Iterator[str]:
    """Yield warnings for readers of a row's figures, one line each."""
    for trial in measurement.trials:
        if trial.outcome in {"wrong", "failed"}:
            tried = name_and_threads(trial.implementation)
            yield f"{tried} was not used ({trial.outcome}): {trial.reason}"
    if measurement.status is MeasurementStatus.MEASURED and measurement.reason:
        yield measurement.reason
    samples = len(measurement.samples_seconds)
    slowed, outlying = measurement.throttled_samples, measurement.outlier_samples
    for what, found in (
        ("were taken while the device was slowed down; reports leave them out", len(slowed)),
        ("are far from the median; kept", len(outlying)),
    ):
        if found > NOTEWORTHY_SHARE * samples:
            yield f"{found} of {samples} samples {what}"
    if measurement.multimodal:
        yield "the samples cluster around more than one value"
