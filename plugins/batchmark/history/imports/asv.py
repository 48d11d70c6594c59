"""Reads airspeed velocity's results for a commit and environment (`<machine>/<commit>-….json`)."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from functools import partial

from batchmark.history.imports.entry import Entry, MisfitError
from batchmark.history.imports.measurement import (
    UNKNOWN,
    Contents,
    ForeignMeasurement,
    Unit,
    figures_or_reason,
    sample_figures,
    spread,
)
from batchmark.history.parquet import MOST_ROWS
from batchmark.history.rows import Row
from batchmark_job.result.values import Parameter

RESULTS_VERSION = 2  # what `asv update` converts older files to
# asv's columns of figures, and ours; all in seconds.
RESULT = "result"
QUARTILES = {"stats_q_25": "p25_seconds", "stats_q_75": "p75_seconds"}
# Units by the prefix of a benchmark's name, for results without a benchmarks.json.
UNITS = {"time_": "seconds", "timeraw_": "seconds", "mem_": "bytes", "peakmem_": "bytes"}
NO_UNIT = "unknown unit, because benchmarks.json is missing"


def is_beside_results(document: object) -> bool:
    """Return whether a document is asv's machine.json or benchmarks.json, which hold no results."""
    if not isinstance(document, dict) or "version" not in document or "results" in document:
        return False
    benchmarks = [value for value in document.values() if isinstance(value, dict)]
    return "machine" in document or any("param_names" in one for one in benchmarks)


def parse(document: Entry, benchmarks: Entry) -> Contents:
    """Yield every timing benchmark at every grid point, and record all others as left out.

    `benchmarks` is the parent folder's benchmarks.json, or an empty object if there is none.

    Raises:
        MisfitError: the file has an unsupported version.
    """
    if (version := document.at("version").value) != RESULTS_VERSION:
        raise MisfitError(
            "",
            f"results of version {version!r}: run `asv update` to convert them to "
            f"{RESULTS_VERSION}",
        )
    columns = [column.text() for column in document.at("result_columns").each()]
    environment = document.at("env_name").text()
    measured = partial(
        ForeignMeasurement,
        commit=document.wanted(Entry.text, "commit_hash"),
        recorded_at=document.wanted(Entry.milliseconds, "date"),
        machine=_machine(document),
    )
    for name, entry in document.at("results").items():
        with entry.alone():
            about = benchmarks.at(name)
            names = about.optional(_texts, "param_names") or []
            unit = about.optional(Entry.text, "unit") or _unit(name)
            for parameters, point in _points(entry, columns, names):
                with point.alone():
                    yield measured(
                        workload=name,
                        # asv, too, keeps its environments apart.
                        parameters=parameters | {"env": environment},
                        skipped=_is_nan(point.at(RESULT).value),
                        **figures_or_reason(point, _figures, Unit.of(unit)),
                    )


def _texts(entry: Entry) -> list[str]:
    return [one.text() for one in entry.each()]


def _points(
    entry: Entry, columns: Sequence[str], names: Sequence[str]
) -> Iterator[tuple[dict[str, Parameter], Entry]]:
    """Yield the parameters and column values of each point in a benchmark's grid."""
    # asv omits trailing nulls.
    found = dict(zip(columns, (column.value for column in entry.each()), strict=False))
    whole = entry.with_value(found)
    axes = [_texts(axis) for axis in whole.at("params").each()] if found.get("params") else []
    if not 0 < (count := math.prod(map(len, axes))) <= MOST_ROWS:
        raise ValueError(f"it has {count} parameter combinations, but must have 1 to {MOST_ROWS}")
    for number, values in enumerate(itertools.product(*axes)):
        known = [*names, *(f"param{index}" for index in range(len(names) + 1, len(values) + 1))]
        yield (
            {name: _value(text) for name, text in zip(known, values, strict=False)},
            entry.with_value(
                {
                    name: column[number]
                    for name, column in found.items()
                    if isinstance(column, list) and len(column) == count
                },
                f"[{number}]" if axes else "",
            ),
        )


def _value(text: str) -> Parameter:
    """Parse a value that asv stored as its repr()."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if type(value) in (int, float, str) else text


def _is_nan(result: object) -> bool:
    return isinstance(result, float) and math.isnan(result)


def _unit(name: str) -> str:
    function = name.rpartition(".")[2]
    return next((unit for start, unit in UNITS.items() if function.startswith(start)), NO_UNIT)


def _figures(point: Entry, unit: Unit) -> Row:
    result = point.at(RESULT)
    if result.value is None or _is_nan(result.value):
        raise ValueError(f"asv recorded {'no result' if result.value is None else 'NaN'} for it")
    if point.at("samples").value:
        return sample_figures([unit.sample(sample) for sample in point.at("samples").each()])
    seconds = unit.sample(result)
    low, high = (point.optional(Entry.number, name) for name in QUARTILES)
    figures: Row = {
        "samples": point.optional(Entry.count, "stats_repeat"),
        "median_seconds": seconds,
    }
    if low is not None and high is not None:
        figures |= dict(zip(QUARTILES.values(), (low, high), strict=True))
        figures["relative_spread"] = spread(low, seconds, high)
    return figures


def _machine(document: Entry) -> Row:
    python = document.optional(Entry.text, "python") or ""
    return {
        "cpu_model": document.optional(Entry.text, "params", "cpu") or UNKNOWN,
        "cpu_threads": document.optional(Entry.count, "params", "num_cpu"),
        "kernel": document.optional(Entry.text, "params", "os"),
        "python_version": python if re.fullmatch(r"[0-9.]+", python) else None,
    }
