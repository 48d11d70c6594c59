"""Read airspeed velocity's results of a commit and environment (`<machine>/<commit>-….json`)."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from batchmark.core.errors import HistoryError
from batchmark.history.imports.measurement import (
    UNKNOWN,
    Contents,
    ForeignMeasurement,
    figures_or_reason,
    from_milliseconds,
    sample_figures,
    to_seconds,
)
from batchmark.history.rows import Row
from batchmark_job.result.values import Parameter

RESULTS_VERSION = 2
# asv's columns of figures, and ours; all in seconds.
RESULT = "result"
QUARTILES = {"stats_q_25": "p25_seconds", "stats_q_75": "p75_seconds"}
# The unit by the start of a benchmark's name, for where there is no benchmarks.json.
UNITS = {"time_": "seconds", "timeraw_": "seconds", "mem_": "bytes", "peakmem_": "bytes"}
NO_UNIT = "unknown unit, as benchmarks.json is missing"


def parse(document: Mapping[str, Any], benchmarks: Mapping[str, Any]) -> Contents:
    """Yield every timing benchmark at every point of its parameters; others are refused.

    `benchmarks.json` is from the folder above; empty if there is none.

    Raises:
        HistoryError: the file has another version.
    """
    if (version := document.get("version")) != RESULTS_VERSION:
        raise HistoryError(
            f"asv results of version {version!r}: `asv update` makes it {RESULTS_VERSION}"
        )
    for name, values in document["results"].items():
        # asv omits trailing nulls.
        columns = dict(zip(document["result_columns"], values, strict=False))
        about = benchmarks.get(name, {})
        points = list(_points(columns, about.get("param_names") or ()))
        unit = about.get("unit") or _unit(name)
        if to_seconds(1.0, unit) is None:
            yield from [unit] * len(points)
            continue
        for parameters, point in points:
            yield ForeignMeasurement(
                commit=document["commit_hash"],
                recorded_at=from_milliseconds(document["date"]),
                workload=name,
                # asv, too, keeps its environments apart.
                parameters=parameters | {"env": document["env_name"]},
                machine=_machine(document),
                skipped=_is_nan(point.get(RESULT)),
                **figures_or_reason(_figures, point, unit, name),
            )


def _points(
    columns: Mapping[str, Any], names: Sequence[str]
) -> Iterator[tuple[dict[str, Parameter], dict[str, Any]]]:
    """Yield each point of a benchmark's grid: its parameters and its value in each column."""
    grid = list(itertools.product(*(columns.get("params") or ())))
    for number, values in enumerate(grid):
        known = [*names, *(f"param{index}" for index in range(len(names) + 1, len(values) + 1))]
        yield (
            {name: _value(text) for name, text in zip(known, values, strict=False)},
            {
                name: column[number]
                for name, column in columns.items()
                if isinstance(column, list) and len(column) == len(grid)
            },
        )


def _value(text: str) -> Parameter:
    """Return the value of which asv stored the repr()."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if type(value) in (int, float, str) else text


def _is_nan(result: Any) -> bool:
    return result is not None and math.isnan(result)


def _unit(name: str) -> str:
    function = name.rpartition(".")[2]
    return next((unit for start, unit in UNITS.items() if function.startswith(start)), NO_UNIT)


def _figures(point: Mapping[str, Any], unit: str, name: str) -> Row:
    result = point.get(RESULT)
    if result is None or _is_nan(result):
        raise ValueError(f"asv has {'NaN' if _is_nan(result) else 'no result'} for it")
    if samples := point.get("samples"):
        return sample_figures(samples, name)
    seconds = to_seconds(result, unit)
    figures = {"samples": point.get("stats_repeat"), "median_seconds": seconds}
    low, high = quartiles = [point.get(name) for name in QUARTILES]
    if seconds and low is not None and high is not None:
        figures |= dict(zip(QUARTILES.values(), quartiles, strict=True))
        figures["relative_spread"] = (high - low) / seconds
    return figures


def _machine(document: Mapping[str, Any]) -> Row:
    machine = document["params"]
    threads = str(machine.get("num_cpu") or "")
    python = str(document.get("python") or "")
    return {
        "cpu_model": machine.get("cpu") or UNKNOWN,
        "cpu_threads": int(threads) if threads.isdecimal() else None,
        "kernel": machine.get("os") or None,
        "python_version": python if re.fullmatch(r"[0-9.]+", python) else None,
    }
