"""Formats a result document as an 80-character-wide table."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator

from batchmark_job.formatting import count, duration
from batchmark_job.progress import has_figures, name_and_threads, point_name
from batchmark_job.result.document import Measurement, ResultDocument

CODE_WIDTH = 38  # makes a line 79 characters long
HEADING = f"{'row':{CODE_WIDTH + 2}} {'median':>9} {'middle half':>22} {'n':>5}"


def lines(document: ResultDocument) -> Iterator[str]:
    """Yield a heading, each row's figures, and notes.

    The notes count the rows with unusual samples and, for each reason, the rows that give it.
    """
    environment = document.environment
    where = environment.gpu_model if document.actual_device == "cuda" else environment.cpu_model
    yield (
        f"suite {document.suite} on {document.actual_device}, "
        f"{count(environment.compute_threads, 'thread')}, {_outcome(document)}, "
        f"{document.finished_at:%Y-%m-%d %H:%M %Z}"
    )
    yield str(where)
    if document.version:
        given = document.version.model_dump(exclude_none=True)
        yield from (f"{name} {value}" for name, value in given.items())
    if document.requested_device == "cuda" and document.actual_device == "cpu":
        yield "NOT A GPU MEASUREMENT: no CUDA device was found, so the CPU was measured"
    if sampled := [row for row in document.measurements if row.samples_seconds]:
        yield ""
        yield HEADING
        for row in sampled:
            yield from _figures(row)
    yield from _below(document)


def _outcome(document: ResultDocument) -> str:
    nothing = document.status == "complete" and not any(map(has_figures, document.measurements))
    return "NOTHING MEASURED" if nothing else document.status


def _figures(row: Measurement) -> Iterator[str]:
    samples = row.samples_seconds
    low, median, high = (
        statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else samples * 3
    )
    code = name_and_threads(row.implementation) if row.implementation else ""
    half = f"{duration(low)} to {duration(high)}"
    yield point_name(row.workload, row)
    yield f"  {code:{CODE_WIDTH}} {duration(median):>9} {half:>22} {len(samples):>5}"


def _below(document: ResultDocument) -> Iterator[str]:
    rows = document.measurements
    odd = {
        "cluster around more than one value": sum(bool(row.multimodal) for row in rows),
        "were taken while the device was slowed down": sum(
            bool(row.throttled_samples) for row in rows
        ),
    }
    yield ""
    of_all = f"of {count(len(rows), 'row')}"
    for what, found in odd.items():
        if found:
            yield f"In {found} {of_all}, samples {what}."
    reasons = Counter(f"{row.status}: {row.reason}" for row in rows if row.reason)
    for reason, found in reasons.items():
        yield f"{found} {of_all} {reason}"
