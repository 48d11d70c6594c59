"""Writes a results folder for airspeed velocity (asv), with runs in place of commits."""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any

import pyarrow as pa

from batchmark.core.names import slug, url_safe
from batchmark.core.suites import NO_DTYPE
from batchmark.history.columns import IMPORTED, STRING
from batchmark.history.exports.runs import job_median, measured, runs
from batchmark.history.imports.asv import QUARTILES, RESULT, RESULTS_VERSION
from batchmark.history.rows import Row
from batchmark.history.series import POINT, is_metric

BENCHMARKS_VERSION, MACHINE_VERSION = 2, 1
# asv ignores results whose version differs from their benchmark's.
VERSION = "1"
COLUMNS = {RESULT: "median_seconds", **QUARTILES}
ABSENT = repr(None)

Point = dict[str, str]  # the repr() of a parameter's value by its name
Axes = dict[str, list[str]]  # all values of a parameter by its name


def files(table: pa.Table) -> Iterator[tuple[str, Any]]:
    """Yield the path and content of each file in asv's `results/`; `table` must have runs.COLUMNS.

    Metrics of users' own jobs are left out, because asv assumes that lower is better.
    """
    table = measured(table)
    table = table.filter(pa.array(~is_metric(table)))
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
        for environment, chosen in by_environment.items():
            newest = max(chosen, key=lambda row: row["recorded_at"])
            machine = _machine(newest)
            machines[machine["machine"]] = machine
            path = f"{machine['machine']}/{slug(newest['run_id'])}-{environment}.json"
            results = {name: _results(chosen, name, axes) for name, axes in grids.items()}
            yield path, _result_file(newest, environment, machine, results)
    for name, machine in machines.items():
        yield f"{name}/machine.json", machine | {"version": MACHINE_VERSION}


def _result_file(
    newest: Row, environment: str, machine: dict[str, str], results: Mapping[str, list[Any]]
) -> dict[str, Any]:
    python, run_id = newest["python_version"] or "", newest["run_id"]
    is_commit = newest["suite"] == IMPORTED
    return {
        "commit_hash": run_id.partition("__")[0] if is_commit else slug(run_id),
        "env_name": environment,
        # In milliseconds.
        "date": round(newest["recorded_at"].replace(tzinfo=UTC).timestamp() * 1000),
        "params": machine | {"python": python},
        "python": python,
        "requirements": {},
        "env_vars": {},
        "result_columns": [RESULT, "params", "version", *QUARTILES],
        "results": {name: columns for name, columns in results.items() if columns},
        "durations": {},
        "version": RESULTS_VERSION,
    }


def _grids(table: pa.Table) -> dict[str, Axes]:
    """Return every value that each parameter of each benchmark has in the table."""
    points = defaultdict(list)
    names = ["suite", *POINT]
    texts = table.select(names).cast(pa.schema([(name, STRING) for name in names]))
    for row in texts.group_by(names).aggregate([]).to_pylist():
        points[_benchmark(row)].append(_point(row))
    return {name: _axes(points[name]) for name in sorted(points)}


def _axes(points: Sequence[Point]) -> Axes:
    names = sorted(set().union(*points))
    return {
        # By length first, so that numbers ascend.
        name: sorted(
            {point.get(name, ABSENT) for point in points}, key=lambda text: (len(text), text)
        )
        for name in names
    }


def _benchmark(row: Row) -> str:
    return f"{row['suite']}.{row['workload']}"


def _point(row: Row) -> Point:
    dtype = {} if row["dtype"] == NO_DTYPE else {"dtype": row["dtype"]}
    values = dtype | json.loads(row["parameters"])
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
    """Return a benchmark's asv columns, with one value per grid point, or [] if it has no rows."""
    found = defaultdict(list)
    for row in rows:
        if _benchmark(row) == name:
            point = _point(row)
            found[tuple(point.get(axis, ABSENT) for axis in axes)].append(row)
    if not found:
        return []
    grid = list(itertools.product(*axes.values()))
    result, *others = (
        [job_median(found[point], column) if point in found else None for point in grid]
        for column in COLUMNS.values()
    )
    # asv takes null for a failure and NaN for a point that was skipped.
    result = [math.nan if value is None else value for value in result]
    return [result, list(axes.values()), VERSION, *others]


def _machine(row: Row) -> dict[str, str]:
    """Describe a machine in asv's format, which allows only strings."""
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
    return url_safe("-".join(known)) or "unknown"
