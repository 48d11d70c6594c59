"""Reads the JSON that hyperfine 1 and 2 write with `--export-json FILE`."""

from __future__ import annotations

from functools import partial

from batchmark.core.formatting import count, shortened_list
from batchmark.history.imports.entry import Entry
from batchmark.history.imports.measurement import (
    SECONDS_OF_CALLS,
    Contents,
    ForeignMeasurement,
    Unit,
    figures_or_reason,
    sample_figures,
)
from batchmark.history.rows import Row


def parse(document: Entry) -> Contents:
    """Yield each command's wall-clock time, or the reason why it has none, such as a failed run."""
    measured = partial(
        ForeignMeasurement,
        recorded_at=document.optional(Entry.moment, "metadata", "start_time"),
        machine={"kernel": document.optional(Entry.text, "metadata", "platform", "os")},
    )
    for entry in document.at("results").each("command"):
        with entry.alone():
            name = entry.optional(Entry.text, "name") or entry.at("command").text()
            yield measured(
                workload=name,
                parameters=_parameters(entry),
                **figures_or_reason(entry, _figures),
            )


def _parameters(result: Entry) -> dict[str, object]:
    values = result.at("parameters")
    return {
        name: "" if value == "" else values.at(name).scalar()
        for name, value in values.fields().items()
    }


def _figures(result: Entry) -> Row:
    seconds = SECONDS_OF_CALLS.sample
    if result.at("measurements").value is not None:
        runs = list(result.at("measurements").each())
        codes = [run.at("exit_code").value for run in runs]
        _check(codes, len(runs))
        samples = [_wall_clock(run.at("time_wall_clock")) for run in runs]
        return sample_figures(samples)
    codes = [code.value for code in result.at("exit_codes").each()]
    if result.at("times").value is not None:
        samples = [seconds(time) for time in result.at("times").each()]
        _check(codes, len(samples))
        return sample_figures(samples)
    _check(codes, len(codes))
    keys = {"min_seconds": "min", "median_seconds": "median", "max_seconds": "max"}
    figures = {column: seconds(result.at(key)) for column, key in keys.items()}
    return {"samples": len(codes), **figures}


def _wall_clock(time: Entry) -> float:
    return Unit.of(time.at("unit").text()).sample(time.at("value"))


def _check(codes: list[object], runs: int) -> None:
    """Reject the times if any run failed, since a failed run may just have ended early."""
    if len(codes) != runs:
        raise ValueError(f"it contains {count(len(codes), 'exit code')} for {count(runs, 'run')}")
    if failed := ["none (a signal)" if code is None else str(code) for code in codes if code != 0]:
        raise ValueError(
            f"{len(failed)} of {count(runs, 'run')} failed (exit codes: {shortened_list(failed)})"
        )
