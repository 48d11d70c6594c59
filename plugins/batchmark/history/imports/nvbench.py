"""Reads NVBench's JSON, as written by `--json FILE`."""

from __future__ import annotations

from batchmark.history.imports.entry import Entry
from batchmark.history.imports.measurement import (
    SECONDS_OF_CALLS,
    UNKNOWN,
    Contents,
    ForeignMeasurement,
    figures_or_reason,
    spread,
)
from batchmark.history.rows import Row
from batchmark_job.result.document import Device

# What the tags of a state's summaries begin with: those of kernels, one at a time, by CUDA's
# events, and those of code that runs on the CPU alone.
COLD, CPU_ONLY = "nv/cold/", "nv/cpu_only/"
TIMES = {COLD: f"{COLD}time/gpu/", CPU_ONLY: f"{CPU_ONLY}time/cpu/"}
SPREAD = {"min": "min_seconds", "q1": "p25_seconds", "q3": "p75_seconds", "max": "max_seconds"}
# Files of before 1.0 have no median.
CENTRES = ("median", "mean")

Summaries = dict[str, Entry]  # a state's figures, in seconds or counts, by their tags


def parse(document: Entry) -> Contents:
    """Yield each state's GPU kernel time, or its CPU time if it is CPU-only."""
    gpus: dict[int, str] = {}
    with document.alone():
        for device in document.at("devices").each("name"):
            with device.alone():
                gpus[device.at("id").count()] = device.at("name").text()
    for benchmark in document.at("benchmarks").each("name"):
        with benchmark.alone():
            name = benchmark.at("name").text()
            for state in benchmark.at("states").each("name"):
                with state.alone():
                    yield _measurement(state, name, gpus)


def _measurement(state: Entry, name: str, gpus: dict[int, str]) -> ForeignMeasurement:
    parameters = _named_values(state.at("axis_values"))
    summaries = _summaries(state)
    on_cpu = any(tag.startswith(CPU_ONLY) for tag in summaries)
    gpu = None if on_cpu else state.at("device").count()
    if gpu:  # the first one has no number, so that a second does not change its names
        parameters["device"] = gpu
    skipped = state.at("is_skipped").flag()
    return ForeignMeasurement(
        workload=name,
        parameters=parameters,
        device=Device.CPU if on_cpu else Device.CUDA,
        machine={} if gpu is None else {"gpu_model": gpus.get(gpu, UNKNOWN)},
        skipped=skipped,
        **figures_or_reason(state, _figures, summaries, CPU_ONLY if on_cpu else COLD, skipped),
    )


def _named_values(values: Entry) -> dict[str, object]:
    """Convert a list of named, typed values, with numbers stored as strings, to a dict by name."""
    if values.value is None:
        return {}
    found: dict[str, object] = {}
    for one in values.each("name"):
        value = one.at("value")
        is_text = one.at("type").value == "string"
        found[one.at("name").text()] = value.text() if is_text else value.scalar()
    return found


def _summaries(state: Entry) -> Summaries:
    if state.at("summaries").value is None:
        return {}
    return {one.at("tag").text(): one for one in state.at("summaries").each("tag")}


def _figures(state: Entry, summaries: Summaries, kind: str, skipped: bool) -> Row:
    if skipped:
        raise ValueError(state.optional(Entry.text, "skip_reason") or "NVBench skipped it")
    times = TIMES[kind]
    seconds = {
        name: SECONDS_OF_CALLS.sample(_value(summaries[times + name]))
        for name in (*CENTRES, *SPREAD)
        if times + name in summaries
    }
    centre = next((seconds[name] for name in CENTRES if name in seconds), None)
    if centre is None:
        raise ValueError(f"it contains neither {' nor '.join(times + name for name in CENTRES)}")
    samples = summaries.get(f"{kind}sample_size")
    return {
        "samples": samples and _value(samples).count(),
        "median_seconds": centre,
        "relative_spread": spread(seconds.get("q1"), centre, seconds.get("q3")),
        **{column: seconds[name] for name, column in SPREAD.items() if name in seconds},
    }


def _value(summary: Entry) -> Entry:
    """Return the entry that holds the value in a summary's data."""
    for one in summary.at("data").each():
        if one.at("name").value == "value":
            return one.at("value")
    raise summary.at("data").misfit("a list that contains a value")
