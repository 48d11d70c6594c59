"""Summarises the check on one page: its steps, problems, speed ratios and measured rows."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from batchmark_job.measuring.samples.sample_statistics import median_interval
from batchmark_job.result.document import Measurement, ResultDocument, ResultError, parse_document
from benchmarks.gpu_check.steps import State, Step, log_of

MOST_CHARACTERS = 12_000  # judgment: short enough to read whole or paste; the logs have the rest
CUT = "(truncated; the rest is in the logs and documents)\n"
MOST_OF_A_SECTION = 40  # lines
LINE = 160  # characters
NEWS = re.compile(
    r"^(FAILED|ERROR|E  |NOT MEASURED|batchmark-job: warning:|slower than|Traceback|\w+Error:)"
    r"|BELOW"
)


def write(folder: Path, state: State, steps: Iterable[Step]) -> str:
    """Write the summary to summary.txt, and return it."""
    sections = list(_sections(folder, state, list(steps)))
    text = "\n\n".join(sections) + "\n"
    if len(text) > MOST_CHARACTERS:
        kept, _, _ = text[: MOST_CHARACTERS - len(CUT)].rpartition("\n")
        text = f"{kept}\n{CUT}"
    (folder / "summary.txt").write_text(text)
    return text


def _sections(folder: Path, state: State, steps: list[Step]) -> Iterator[str]:
    yield _head(state.device)
    yield "\n".join(_outcome(step, state.done[step.name], folder) for step in steps)
    for step in steps:
        log = log_of(step, folder).read_text(errors="replace").splitlines()
        news = [line[:LINE] for line in log if NEWS.search(line)]
        if state.done[step.name]["rc"] and not news:
            news = [line[:LINE] for line in log[-5:]]
        if news:
            yield "\n".join([f"problems in step {step.name}:", *_shortened(news)])
        if step.name == "rivals":
            yield "\n".join(["speed relative to the fastest plain call, and to a copy:", *log[:60]])
    documents = {step.name: _document(folder, step) for step in steps if step.document}
    for name, document in documents.items():
        if document and name.endswith("-cuda"):
            other = documents.get(name.replace("-cuda", "-cpu"))
            yield "\n".join([f"{name}, medians:", *_rows(document, other)])


def _head(device: dict[str, Any]) -> str:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    versions = ", ".join(f"{name} {version}" for name, version in device["packages"].items())
    return (
        f"gpu-check of {device['gpus']} × {device['gpu']}, capability {device['capability']}, "
        f"{device['memory_bytes'] / 2**30:.1f} GiB; {now}\ndriver {device['driver']}, CUDA "
        f"{device['cuda']}, torch {device['torch']} built for {' '.join(device['built_for'])}, "
        f"Python {device['python']}, {versions}\n{device['cpu_threads']} threads on "
        f"{device['cpu']}, Linux {device['kernel']}, job code {device['code']}"
    )


def _outcome(step: Step, done: dict[str, Any], folder: Path) -> str:
    said = "ok" if done["rc"] == 0 else f"exit {done['rc']}"
    if done["late"]:
        said = f"stopped after {step.limit_seconds} s"
    log = log_of(step, folder)
    last = next((line for line in reversed(log.read_text().splitlines()) if line.strip()), "")
    return f"{step.name:15} {said:12} {done['seconds']:6.1f} s  {last.strip()[:90]}"


def _document(folder: Path, step: Step) -> ResultDocument | None:
    try:
        return parse_document((folder / str(step.document)).read_bytes())
    except (OSError, ResultError):  # the step's outcome says why
        return None


def _rows(document: ResultDocument, other: ResultDocument | None) -> Iterator[str]:
    there = {_name(row): row for row in other.measurements} if other else {}
    for row in document.measurements:
        name = _name(row)
        line = f"{name:44} {_time(row):24}"
        beside = there.get(name)
        if beside is not None:
            line += f" cpu {_time(beside):24}"
            if row.status == beside.status == "measured":
                line += f" {_median(beside) / _median(row):8.2f}×"
        if row.scaling and row.samples_seconds:
            busy = row.scaling.gpu_busy_share
            known = "not known" if busy is None else f"{busy:.0%}"
            line += f" {(row.items or 0) / _median(row):.0f} images/s, GPU busy {known}"
        chosen = row.implementation.name if row.implementation else ""
        yield f"{line} {chosen} {row.reason or ''}".rstrip()[:LINE]


def _name(row: Measurement) -> str:
    axes = " ".join(f"{axis}={value}" for axis, value in row.parameters.items())
    return f"{row.workload} {axes} {row.dtype}"


def _median(row: Measurement) -> float:
    return statistics.median(row.samples_seconds)


def _time(row: Measurement) -> str:
    """Format the median in µs, ± half the width of its 95 % interval, or return the status."""
    if not row.samples_seconds:
        return str(row.status)
    interval = median_interval(row.samples_seconds)
    half = f" ± {(interval.high - interval.low) / 2 * 1e6:.1f}" if interval else ""
    mark = "" if row.status == "measured" else f" {row.status}"
    return f"{_median(row) * 1e6:.1f}{half} µs{mark}"


def _shortened(lines: list[str]) -> list[str]:
    left = len(lines) - MOST_OF_A_SECTION
    return [*lines[:MOST_OF_A_SECTION], f"... and {left} more lines"] if left > 0 else lines
