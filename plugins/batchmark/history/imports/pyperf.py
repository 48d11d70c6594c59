"""Reads pyperf's JSON, as written by `python -m pyperf timeit -o` and pyperf's Runner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypeVar

from batchmark.history.imports.entry import Entry, MisfitError
from batchmark.history.imports.measurement import (
    UNKNOWN,
    Contents,
    ForeignMeasurement,
    Unit,
    figures_or_reason,
    sample_figures,
)
from batchmark.history.rows import Row

VERSIONS = ("1.0", 6)  # 6 has the same values of runs
CALIBRATIONS = ("calibrate_loops", "recalibrate_loops", "calibrate_warmups", "recalibrate_warmups")

_Value = TypeVar("_Value")


def parse(document: Entry) -> Contents:
    """Yield every timing benchmark with its runs' values, without warm-ups.

    Raises:
        MisfitError: the file's version is not supported.
    """
    if (version := document.at("version").value) not in VERSIONS:
        raise MisfitError(
            "", f"results of version {version!r}: `pyperf convert` converts them to '1.0'"
        )
    benchmarks = list(document.at("benchmarks").each("metadata", "name"))
    dates = [date for entry in benchmarks for date in _dates(document, entry)]
    for entry in benchmarks:
        with entry.alone():
            name = _metadata(document, entry, Entry.text, "name")
            if name is None:
                raise entry.at("metadata", "name").misfit("valid text")
            unit = Unit.of(_metadata(document, entry, Entry.text, "unit") or "second")
            yield ForeignMeasurement(
                commit=_metadata(document, entry, Entry.text, "commit_id"),
                recorded_at=min(dates, default=None),
                workload=name,
                machine=_machine(document, entry),
                **figures_or_reason(entry, _figures, unit),
            )


def _dates(document: Entry, benchmark: Entry) -> Iterator[datetime]:
    # That of a single run stands with what all have in common.
    if date := _metadata(document, benchmark, Entry.moment, "date"):
        yield date
    with benchmark.alone():
        for run in benchmark.at("runs").each():
            if date := run.optional(Entry.moment, "metadata", "date"):
                yield date


def _metadata(
    document: Entry, benchmark: Entry, read: Callable[[Entry], _Value], key: str
) -> _Value | None:
    """Return a metadata value from the benchmark or, failing that, from the file."""
    found = benchmark.optional(read, "metadata", key)
    return document.optional(read, "metadata", key) if found is None else found


def _machine(document: Entry, benchmark: Entry) -> Row:
    return {
        "cpu_model": _metadata(document, benchmark, Entry.text, "cpu_model_name") or UNKNOWN,
        "cpu_threads": _metadata(document, benchmark, Entry.count, "cpu_count"),
        "kernel": _metadata(document, benchmark, Entry.text, "platform"),
        "python_version": _metadata(document, benchmark, Entry.text, "python_version"),
    }


def _figures(benchmark: Entry, unit: Unit) -> Row:
    runs = [
        [unit.sample(value) for value in run.at("values").each()]
        for number, run in enumerate(benchmark.at("runs").each())
        if not _is_calibration(run, number)
    ]
    samples = [sample for run in runs for sample in run]
    return sample_figures(samples, [len(run) for run in runs if run])


def _is_calibration(run: Entry, number: int) -> bool:
    """Return whether a run only calibrated the loop count; pyperf before 1.2 doesn't flag this."""
    if run.at("values").value is not None:
        return False
    known = run.at("metadata").fields().keys() & CALIBRATIONS
    return bool(known) or (number == 0 and run.at("warmups").value is not None)
