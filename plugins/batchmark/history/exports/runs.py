"""What was measured on a target in a run, as the tools that know runs want it."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from batchmark.history.series import POINT, counted, encoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from batchmark.history.rows import Row

# The suite comes with every table.
COLUMNS = (
    *("target", "run_id", "recorded_at", "status", "purpose", *POINT),
    *("median_seconds", "median_low_seconds", "median_high_seconds", "p25_seconds", "p75_seconds"),
    *("cpu_model", "cpu_threads", "memory_bytes", "kernel", "python_version", "torch_version"),
)


def measured(table: pa.Table) -> pa.Table:
    """The rows that make a run's figures.

    Args:
        table: with COLUMNS.
    """
    return table.filter(pa.array(counted(table)))


def runs(table: pa.Table) -> Iterator[list[Row]]:
    """The rows of each target and run."""
    targets, _ = encoded(table["target"])
    run_ids, names = encoded(table["run_id"])
    group = targets.astype(np.int64) * names.size + run_ids
    order = np.argsort(group, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        if rows.size:
            found: list[Row] = table.take(pa.array(rows)).to_pylist()
            yield found


def middle(rows: Iterable[Row], column: str) -> float | None:
    """The median of a column over a run's jobs; None where none of them has it."""
    values = [row[column] for row in rows if row[column] is not None]
    return median(values) if values else None
