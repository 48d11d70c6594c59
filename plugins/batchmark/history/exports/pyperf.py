"""Writes one pyperf JSON file per target and run, with each job's median as a pyperf run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from batchmark.core.names import slug
from batchmark.history.exports.runs import benchmark_name, measured, runs
from batchmark.history.rows import Row
from batchmark.history.series import is_metric

VERSION = "1.0"


def files(table: pa.Table) -> Iterator[tuple[str, Any]]:
    """Yield each file's path (`<target>/<run>.json`) and content; `table` must have runs.COLUMNS.

    Metrics of users' own jobs are left out, because pyperf assumes that lower is better.
    """
    table = measured(table)
    for rows in runs(table.filter(pa.array(~is_metric(table)))):
        by_name = defaultdict[str, list[Row]](list)
        for row in rows:
            if row["median_seconds"]:
                by_name[benchmark_name(row)].append(row)
        yield (
            f"{slug(rows[0]['target'])}/{slug(rows[0]['run_id'])}.json",
            {
                "benchmarks": [
                    {"metadata": {"name": name}, "runs": [_run(row) for row in chosen]}
                    for name, chosen in by_name.items()
                ],
                "metadata": {"unit": "second", "hostname": rows[0]["target"]},
                "version": VERSION,
            },
        )


def _run(row: Row) -> dict[str, Any]:
    # pyperf writes dates without a time zone.
    return {"metadata": {"date": str(row["recorded_at"])}, "values": [row["median_seconds"]]}
