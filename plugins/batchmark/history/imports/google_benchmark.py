"""Reads Google Benchmark's JSON, as written by `--benchmark_out=FILE`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from batchmark.history.imports.entry import Entry, MisfitError, grouped_repetitions
from batchmark.history.imports.measurement import (
    Contents,
    ForeignMeasurement,
    Unit,
    figures_or_reason,
    sample_figures,
)
from batchmark.history.rows import Row

AGGREGATE = "aggregate"
# Of the aggregates, only these are times of a call; the first that a file has is taken.
CENTRES = ("median", "mean")
CURVES = ("BigO", "RMS")  # of a family of benchmarks, so no aggregate of repetitions
# Parts of a name that say how it was measured, not what.
SETTINGS = re.compile(r"/(?:min_time|min_warmup_time|iterations|repeats):[^/]*")
# How names end where a file of before 1.5 does not tell an aggregate by its type.
ENDINGS = re.compile(r"_(median|mean|stddev|cv|BigO|RMS)$")
# The first releases wrote dates as 2015/03/17-18:40:25, and no unit: all was in nanoseconds.
FIRST_DATE = re.compile(r"(\d{4})/(\d\d)/(\d\d)-")
FIRST_UNIT = "ns"
LATER = ("time_unit", "run_type")


def parse(document: Entry) -> Contents:
    """Yield each benchmark's wall-clock time, with its repetitions as samples.

    A benchmark's aggregates are used only if the file doesn't contain its repetitions.
    """
    measured = partial(
        ForeignMeasurement,
        recorded_at=document.optional(_date, "context", "date"),
        machine={"cpu_threads": document.optional(Entry.count, "context", "num_cpus")},
    )
    by_name = defaultdict[str, list[Entry]](list)
    is_first = True
    for entry in document.at("benchmarks").each("name"):
        with entry.alone():
            is_first &= all(entry.at(key).value is None for key in LATER)
            if _aggregate(entry) not in CURVES:
                by_name[_run_name(entry)].append(entry)
    for name, entries in by_name.items():
        repetitions = [entry for entry in entries if _aggregate(entry) is None]
        groups = grouped_repetitions(repetitions, "repetition_index") if repetitions else [entries]
        for group in groups:
            skipped = group[0].at("skipped").value is True
            with group[0].alone():
                unit = Unit.of(FIRST_UNIT if is_first else group[0].at("time_unit").text())
                yield measured(
                    workload=name,
                    skipped=skipped,
                    **figures_or_reason(
                        group[0], _of_repetitions if repetitions else _of_aggregates, unit, group
                    ),
                )


def _date(date: Entry) -> datetime:
    return date.with_value(FIRST_DATE.sub(r"\1-\2-\3T", date.text())).moment()


def _aggregate(entry: Entry) -> str | None:
    """Return an aggregate entry's name, such as "median", or None for a single repetition."""
    found = ENDINGS.search(str(entry.at("name").value))
    kind = entry.at("run_type").value
    if kind == AGGREGATE or (kind is None and found):
        return str(entry.at("aggregate_name").value or (found[1] if found else ""))
    return None


def _run_name(entry: Entry) -> str:
    if entry.at("run_name").value is not None:
        name = entry.at("run_name").text()
    else:
        name = entry.at("name").text()
        name = ENDINGS.sub("", name) if _aggregate(entry) else name
    return SETTINGS.sub("", name)


def _of_repetitions(first: Entry, unit: Unit, repetitions: Sequence[Entry]) -> Row:
    for one in repetitions:
        for sign, message in (("error_occurred", "error_message"), ("skipped", "skip_message")):
            if one.at(sign).value is True:
                raise MisfitError(one.place, one.optional(Entry.text, message) or sign)
    asked = first.optional(Entry.count, "repetitions") or 1
    if len(repetitions) < asked:
        raise ValueError(f"the file contains only {len(repetitions)} of its {asked} repetitions")
    return sample_figures([unit.sample(one.at("real_time")) for one in repetitions])


def _of_aggregates(_: Entry, unit: Unit, aggregates: Sequence[Entry]) -> Row:
    by_kind = {_aggregate(entry): entry for entry in aggregates}
    centre = next((by_kind[kind] for kind in CENTRES if kind in by_kind), None)
    if centre is None:
        raise ValueError(f"it contains neither repetitions nor their {' or '.join(CENTRES)}")
    return {
        "samples": centre.optional(Entry.count, "repetitions"),
        "median_seconds": unit.sample(centre.at("real_time")),
    }
