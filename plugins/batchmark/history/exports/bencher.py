"""Write Bencher Metric Format: one report per target (a testbed there) and run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from batchmark.core.names import slug, url_safe
from batchmark.history.exports.runs import job_median, measured, runs

if TYPE_CHECKING:
    from batchmark.history.rows import Row

NANOSECONDS = 1e9
FIGURES = {
    "value": "median_seconds",
    "lower_value": "median_low_seconds",
    "upper_value": "median_high_seconds",
}


def files(table: pa.Table) -> Iterator[tuple[str, Any]]:
    """Yield each report: its path, `<target>/<run>.json`, and its content. Takes runs.COLUMNS."""
    for rows in runs(measured(table)):
        points = defaultdict(list)
        for row in rows:
            points[_name(row)].append(row)
        report = {name: {"latency": _latency(chosen)} for name, chosen in points.items()}
        yield f"{url_safe(rows[0]['target'])}/{slug(rows[0]['run_id'])}.json", report


def _name(row: Row) -> str:
    parameters = (f"{name}={value}" for name, value in json.loads(row["parameters"]).items())
    return " ".join((f"{row['suite']}/{row['workload']}", *parameters, row["dtype"]))


def _latency(rows: Sequence[Row]) -> dict[str, float]:
    """Return the median in nanoseconds, and the ends of its interval if it has one."""
    figures = {name: job_median(rows, column) for name, column in FIGURES.items()}
    return {name: NANOSECONDS * value for name, value in figures.items() if value is not None}
