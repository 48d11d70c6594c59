"""airspeed velocity's results of a commit and environment: `results/<machine>/<commit>-….json`."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from batchmark.exceptions import HistoryError
from batchmark.history.imports.measurement import (
    UNKNOWN,
    ForeignMeasurement,
    Parsed,
    figures_of_samples,
    moment_of,
)
from batchmark.history.imports.units import to_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from batchmark.history.rows import Row
    from batchmark_job.result import Parameter

VERSION = 2
# A benchmark's kind is the start of its name, where benchmarks.json does not tell its unit.
UNITS = {"time_": "seconds", "timeraw_": "seconds", "mem_": "bytes", "peakmem_": "bytes"}
NO_UNIT = "unknown unit, for benchmarks.json is missing"


def parse(document: Mapping[str, Any], benchmarks: Mapping[str, Any]) -> Parsed:
    """Every timing benchmark at every point of its parameters; all others are refused.

    Args:
        benchmarks: `benchmarks.json` from the folder above, empty where there is none.

    Raises:
        HistoryError: the file is of another version.
    """
    if (version := document.get("version")) != VERSION:
        raise HistoryError(
            f"asv results of version {version!r}: let `asv update` make it {VERSION}"
        )
    measurements: list[ForeignMeasurement] = []
    refused: Counter[str] = Counter()
    for name, values in document["results"].items():
        columns = dict(zip(document["result_columns"], values, strict=False))  # the rest is null
        about = benchmarks.get(name, {})
        points = list(_points(columns, about.get("param_names") or ()))
        unit = about.get("unit") or _unit(name)
        if to_seconds(1.0, unit) is None:
            refused[unit] += len(points)
            continue
        for parameters, point in points:
            figures: Row = {}
            reason = None
            try:
                figures = _figures(point, unit, name)
            except ValueError as error:
                reason = str(error)
            measurements.append(
                ForeignMeasurement(
                    commit=document["commit_hash"],
                    recorded_at=moment_of(document["date"]),
                    workload=name,
                    # asv, too, holds its environments apart.
                    parameters=parameters | {"env": document["env_name"]},
                    figures=figures,
                    machine=_machine(document),
                    reason=reason,
                    skipped=_is_nan(point.get("result")),
                )
            )
    return Parsed(measurements, refused)


def _points(
    columns: Mapping[str, Any], names: Sequence[str]
) -> Iterator[tuple[dict[str, Parameter], dict[str, Any]]]:
    """Each point of a benchmark's grid: its parameters and its value in each column."""
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
    """asv stores what repr() gives."""
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
    result = point.get("result")
    if result is None or _is_nan(result):
        raise ValueError(f"asv has {'NaN' if _is_nan(result) else 'no result'} of it")
    if samples := point.get("samples"):
        return figures_of_samples(samples, name)
    seconds = to_seconds(result, unit)
    figures = {"samples": point.get("stats_repeat"), "median_seconds": seconds}
    low, high = point.get("stats_q_25"), point.get("stats_q_75")
    if seconds and low is not None and high is not None:
        spread = (high - low) / seconds
        figures |= {"p25_seconds": low, "p75_seconds": high, "relative_spread": spread}
    return figures


def _machine(document: Mapping[str, Any]) -> Row:
    told = document["params"]
    threads = str(told.get("num_cpu") or "")
    python = str(document.get("python") or "")
    return {
        "cpu_model": told.get("cpu") or UNKNOWN,
        "cpu_threads": int(threads) if threads.isdecimal() else None,
        "kernel": told.get("os") or None,
        "python_version": python if re.fullmatch(r"[0-9.]+", python) else None,
    }
