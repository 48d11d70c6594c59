"""Reads github-action-benchmark's history, either its page's `data.js` or its JSON file."""

from __future__ import annotations

from functools import partial

from batchmark.history.imports.entry import Entry
from batchmark.history.imports.measurement import (
    Contents,
    ForeignMeasurement,
    Unit,
    figures_or_reason,
)
from batchmark.history.rows import Row

VARIABLE = "window.BENCHMARK_DATA"
# Only these tools say of any unit which side is better.
HIGHER_IS_BETTER = {"customBiggerIsBetter": True, "customSmallerIsBetter": False}


def parse(document: Entry) -> Contents:
    """Yield times, rates, and any figures whose tool says whether bigger or smaller is better."""
    for suite, entries in document.at("entries").items():
        with entries.alone():
            for entry in entries.each():
                with entry.alone():
                    yield from _of_commit(suite, entry)


def _of_commit(suite: str, entry: Entry) -> Contents:
    measured = partial(
        ForeignMeasurement,
        commit=entry.wanted(Entry.text, "commit", "id"),
        recorded_at=entry.wanted(Entry.milliseconds, "date"),
    )
    better = HIGHER_IS_BETTER.get(str(entry.at("tool").value))
    for bench in entry.at("benches").each("name"):
        with bench.alone():
            unit = Unit.of(bench.at("unit").text(), better)
            yield measured(
                workload=f"{suite}/{bench.at('name').text()}",
                parameters=unit.parameters,
                **figures_or_reason(bench, _figures, unit),
            )


def _figures(bench: Entry, unit: Unit) -> Row:
    return {"median_seconds": unit.sample(bench.at("value"))}
