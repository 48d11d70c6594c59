"""Groups the history's rows by target and run, as other tools expect."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from statistics import median

import numpy as np
import pyarrow as pa

from batchmark.core.formatting import OF_A_METRIC
from batchmark.core.row_values import ToldMetric
from batchmark.core.suites import NO_DTYPE
from batchmark.history.rows import Row
from batchmark.history.series import POINT, dictionary_codes, is_counted

# The history adds the suite to every table.
COLUMNS = (
    *("target", "run_id", "recorded_at", "status", "purpose", *POINT),
    *("median_seconds", "median_low_seconds", "median_high_seconds", "p25_seconds", "p75_seconds"),
    *("cpu_model", "cpu_threads", "memory_bytes", "kernel", "python_version", "torch_version"),
)


def measured(table: pa.Table) -> pa.Table:
    """Return the rows that count towards a run's figures; `table` must have COLUMNS."""
    return table.filter(pa.array(is_counted(table)))


def runs(table: pa.Table) -> Iterator[list[Row]]:
    """Yield the rows for each combination of target and run."""
    targets, _ = dictionary_codes(table["target"])
    run_ids, names = dictionary_codes(table["run_id"])
    group = targets.astype(np.int64) * names.size + run_ids
    order = np.argsort(group, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        if rows.size:
            found: list[Row] = table.take(pa.array(rows)).to_pylist()
            yield found


def job_median(rows: Iterable[Row], column: str) -> float | None:
    """Return a column's median over a run's jobs, or None if no job has a value."""
    values = [row[column] for row in rows if row[column] is not None]
    return median(values) if values else None


def benchmark_name(row: Row) -> str:
    """Return a row's benchmark name: its suite, workload, parameters and dtype, but no metric."""
    values = json.loads(row["parameters"])
    if ToldMetric.of(values):
        values = {name: value for name, value in values.items() if name not in OF_A_METRIC}
    parameters = (f"{name}={value}" for name, value in values.items())
    dtype = [] if row["dtype"] == NO_DTYPE else [row["dtype"]]
    return " ".join((f"{row['suite']}/{row['workload']}", *parameters, *dtype))
