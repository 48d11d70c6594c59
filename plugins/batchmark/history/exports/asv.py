"""airspeed velocity's folder of results: what is a commit there is a run here."""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from datetime import UTC
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from batchmark.history.columns import IMPORTED, STRING
from batchmark.history.exports.runs import measured, middle, runs
from batchmark.history.series import POINT
from batchmark.job_identity import slug

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from batchmark.history.rows import Row

RESULTS_VERSION, BENCHMARKS_VERSION, MACHINE_VERSION = 2, 2, 1  # of asv's kinds of files
# asv passes over a result whose version is not that of its benchmark.
VERSION = "1"
COLUMNS = {"result": "median_seconds", "stats_q_25": "p25_seconds", "stats_q_75": "p75_seconds"}
ABSENT = repr(None)

Point = dict[str, str]  # parameters as asv holds them: the name, and what repr() gives
Axes = dict[str, list[str]]


def files(table: pa.Table) -> Iterator[tuple[str, Any]]:
    """Each file by its path in asv's `results/`.

    Args:
        table: with runs.COLUMNS.
    """
    table = measured(table)
    grids = _grids(table)
    yield (
        "benchmarks.json",
        {"version": BENCHMARKS_VERSION}
        | {name: _about(name, axes) for name, axes in grids.items()},
    )
    machines = {}
    for rows in runs(table):
        by_environment = defaultdict(list)
        for row in rows:
            by_environment[_environment(row)].append(row)
        for environment, own in by_environment.items():
            newest = max(own, key=lambda row: row["recorded_at"])
            machine = _machine(newest)
            machines[machine["machine"]] = machine
            path = f"{machine['machine']}/{slug(newest['run_id'])}-{environment}.json"
            results = {name: _results(own, name, axes) for name, axes in grids.items()}
            yield (
                path,
                {
                    "commit_hash": _commit(newest),
                    "env_name": environment,
                    "date": _milliseconds(newest),
                    "params": machine | {"python": newest["python_version"] or ""},
                    "python": newest["python_version"] or "",
                    "requirements": {},
                    "env_vars": {},
                    "result_columns": ["result", "params", "version", *list(COLUMNS)[1:]],
                    "results": {name: columns for name, columns in results.items() if columns},
                    "durations": {},
                    "version": RESULTS_VERSION,
                },
            )
    for name, machine in machines.items():
        yield f"{name}/machine.json", machine | {"version": MACHINE_VERSION}


def _grids(table: pa.Table) -> dict[str, Axes]:
    """Of each benchmark the values that its parameters ever had."""
    points = defaultdict(list)
    names = ["suite", *POINT]
    texts = table.select(names).cast(pa.schema([(name, STRING) for name in names]))
    for row in texts.group_by(names).aggregate([]).to_pylist():
        points[_benchmark(row)].append(_point(row))
    return {name: _axes(points[name]) for name in sorted(points)}


def _axes(points: Sequence[Point]) -> Axes:
    names = sorted(set().union(*points))
    return {
        name: sorted({point.get(name, ABSENT) for point in points}, key=lambda one: (len(one), one))
        for name in names
    }


def _benchmark(row: Row) -> str:
    return f"{row['suite']}.{row['workload']}"


def _point(row: Row) -> Point:
    values = {"dtype": row["dtype"]} | json.loads(row["parameters"])
    return {name: repr(value) for name, value in values.items()}


def _about(name: str, axes: Axes) -> dict[str, Any]:
    return {
        "code": "",
        "name": name,
        "param_names": list(axes),
        "params": list(axes.values()),
        "type": "time",
        "unit": "seconds",
        "version": VERSION,
    }


def _results(rows: Sequence[Row], name: str, axes: Axes) -> list[Any]:
    """A benchmark's columns, each with a value at every point of its grid; empty without a row."""
    found = defaultdict(list)
    for row in rows:
        if _benchmark(row) == name:
            point = _point(row)
            found[tuple(point.get(one, ABSENT) for one in axes)].append(row)
    if not found:
        return []
    grid = list(itertools.product(*axes.values()))
    result, *others = (
        [middle(found[point], column) if point in found else None for point in grid]
        for column in COLUMNS.values()
    )
    # null would say that it failed.
    measured_or_not = [math.nan if value is None else value for value in result]
    return [measured_or_not, list(axes.values()), VERSION, *others]


def _machine(row: Row) -> dict[str, str]:
    """asv has texts for all of it."""
    return {
        "arch": "",
        "cpu": row["cpu_model"],
        "machine": slug(row["target"]),
        "num_cpu": str(row["cpu_threads"] or ""),
        "os": row["kernel"] or "",
        "ram": str(row["memory_bytes"] or ""),
    }


def _environment(row: Row) -> str:
    versions = {"py": row["python_version"], "torch": row["torch_version"]}
    known = [f"{name}{version}" for name, version in versions.items() if version]
    return slug("-".join(known)) or "unknown"


def _commit(row: Row) -> str:
    run_id: str = row["run_id"]
    return run_id.partition("__")[0] if row["suite"] == IMPORTED else slug(run_id)


def _milliseconds(row: Row) -> int:
    recorded_at: datetime = row["recorded_at"]
    return round(recorded_at.replace(tzinfo=UTC).timestamp() * 1000)
