"""Reads pytest-benchmark's JSON, as written by `pytest --benchmark-json`."""

from __future__ import annotations

from functools import partial

from batchmark.history.imports.entry import Entry
from batchmark.history.imports.measurement import (
    SECONDS_OF_CALLS,
    UNKNOWN,
    Contents,
    ForeignMeasurement,
    figures_or_reason,
    sample_figures,
    spread,
)
from batchmark.history.imports.names import stable_parameters
from batchmark.history.rows import Row

UNVERSIONED = "unversioned"
FEWEST_ROUNDS = 4  # for quartiles of their own


def parse(document: Entry) -> Contents:
    """Yield every benchmark; all times are in seconds."""
    commit = document.optional(Entry.text, "commit_info", "id")
    measured = partial(
        ForeignMeasurement,
        commit=None if commit == UNVERSIONED else commit,
        branch=document.optional(Entry.text, "commit_info", "branch"),
        # Old releases wrote UTC without saying so.
        recorded_at=document.optional(Entry.moment, "datetime"),
        machine=_machine(document),
    )
    for entry in document.at("benchmarks").each("fullname"):
        with entry.alone():
            name, parameters = _identity(entry)
            yield measured(
                workload=name,
                parameters=parameters,
                **figures_or_reason(entry, _figures),
            )


def _identity(entry: Entry) -> tuple[str, dict[str, object]]:
    """Return the name, without pytest's parameter id if that is redundant, and the parameters."""
    name, parameters = entry.at("fullname").text(), entry.at("params").fields()
    if parameters and parameters == stable_parameters(parameters):
        name = name.removesuffix(f"[{entry.at('param').value}]")
    return name, parameters


def _machine(document: Entry) -> Row:
    text = partial(document.optional, Entry.text, "machine_info")
    brand, model = text("cpu", "brand_raw"), text("cpu", "brand")
    return {
        "cpu_model": brand or model or UNKNOWN,
        "cpu_threads": document.optional(Entry.count, "machine_info", "cpu", "count"),
        "python_version": text("python_version"),
        "kernel": " ".join(filter(None, (text("system"), text("release")))) or None,
    }


def _figures(entry: Entry) -> Row:
    seconds, stats = SECONDS_OF_CALLS.sample, entry.at("stats")
    if stats.at("data").value:
        samples = [seconds(sample) for sample in stats.at("data").each()]
        return sample_figures(samples)
    rounds = stats.at("rounds").count()
    low, first, median, third, high = (
        seconds(stats.at(key)) for key in ("min", "q1", "median", "q3", "max")
    )
    return {
        "samples": rounds,
        "median_seconds": median,
        "min_seconds": low,
        "p25_seconds": first,
        "p75_seconds": third,
        "max_seconds": high,
        "relative_spread": spread(first, median, third) if rounds >= FEWEST_ROUNDS else None,
    }
