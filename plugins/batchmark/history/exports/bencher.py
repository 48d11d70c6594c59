"""Bencher Metric Format: a report for each target, which is a testbed there, and run."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from batchmark.history.exports.runs import measured, middle, runs
from batchmark.job_identity import slug

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from batchmark.history.rows import Row

NANOSECONDS = 1e9
FIGURES = {
    "value": "median_seconds",
    "lower_value": "median_low_seconds",
    "upper_value": "median_high_seconds",
}


def files(table: pa.Table) -> Iterator[tuple[str, Any]]:
    """Each report by its path, `<target>/<run>.json`.

    Args:
        table: with runs.COLUMNS.
    """
    for rows in runs(measured(table)):
        points = defaultdict(list)
        for row in rows:
            points[_name(row)].append(row)
        report = {name: {"latency": _latency(own)} for name, own in points.items()}
        yield f"{slug(rows[0]['target'])}/{slug(rows[0]['run_id'])}.json", report


def _name(row: Row) -> str:
    named = (f"{name}={value}" for name, value in json.loads(row["parameters"]).items())
    return " ".join((f"{row['suite']}/{row['workload']}", *named, row["dtype"]))


def _latency(rows: Sequence[Row]) -> dict[str, float]:
    """In nanoseconds, with the ends of the median's interval where there is one."""
    figures = {name: middle(rows, column) for name, column in FIGURES.items()}
    return {name: NANOSECONDS * value for name, value in figures.items() if value is not None}
