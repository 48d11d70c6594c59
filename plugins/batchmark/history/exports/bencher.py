"""Writes reports in Bencher Metric Format, one per run and target (Bencher's testbed)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from batchmark.core.names import slug
from batchmark.core.row_values import ToldMetric
from batchmark.history.exports.runs import benchmark_name, job_median, measured, runs
from batchmark.history.rows import Row
from batchmark_job.result.own_job import HIGHER, LOWER

NANOSECONDS = 1e9
FIGURES = {
    "value": "median_seconds",
    "lower_value": "median_low_seconds",
    "upper_value": "median_high_seconds",
}
SWAPPED = {"lower_value": "upper_value", "upper_value": "lower_value"}


def files(table: pa.Table) -> Iterator[tuple[str, Any]]:
    """Yield each report's path (`<target>/<run>.json`) and content; `table` needs runs.COLUMNS."""
    for rows in runs(measured(table)):
        points: dict[tuple[str, ToldMetric | None], list[Row]] = defaultdict(list)
        for row in rows:
            points[benchmark_name(row), ToldMetric.of(json.loads(row["parameters"]))].append(row)
        report: dict[str, dict[str, Any]] = defaultdict(dict)
        for (name, told), chosen in points.items():
            report[name][_measure(told)] = _figures(chosen, told)
        yield f"{slug(rows[0]['target'])}/{slug(rows[0]['run_id'])}.json", report


def _measure(told: ToldMetric | None) -> str:
    """Return the measure's name; a metric's includes its unit and direction, to keep it unique."""
    if told is None:
        return "latency"
    better = f"{HIGHER if told.higher_is_better else LOWER} is better"
    return f"{told.name} ({f'{told.unit}, ' if told.unit else ''}{better})"


def _figures(rows: Sequence[Row], told: ToldMetric | None) -> dict[str, float]:
    """Return the median and, if known, its interval, in nanoseconds or the metric's unit."""
    found = {name: job_median(rows, column) for name, column in FIGURES.items()}
    figures = {name: value for name, value in found.items() if value is not None}
    if told is None:
        return {name: NANOSECONDS * value for name, value in figures.items()}
    values = {name: told.value(figure) for name, figure in figures.items()}
    if told.higher_is_better:  # so that its lower end is the sample's upper one
        values = {SWAPPED.get(name, name): value for name, value in values.items()}
    return values
