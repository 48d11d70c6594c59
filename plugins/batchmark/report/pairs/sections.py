"""Builds a section of charts, and one per pair of targets: rows, crossovers, machines, jobs."""

from __future__ import annotations

from collections.abc import Iterator

from batchmark.analysis.pairs.answer import Measure
from batchmark.analysis.pairs.crossover import Crossover
from batchmark.analysis.pairs.pair import Pair
from batchmark.report import blocks, machines, words
from batchmark.report.model import Report
from batchmark.report.size_charts import size_charts
from batchmark_job.result.confidence import CONFIDENCE_TEXT

ONE_CALL = (
    " One call is a job that makes a single call: process start until the device is ready, "
    "copying the inputs in, the first call, and copying the output out. Crossovers exclude the "
    "queue, the image and the container, which are listed under cold start below, and libraries "
    "that an earlier workload had already loaded."
)


def sections(report: Report) -> Iterator[blocks.Section]:
    """Build the sections; if there are several pairs, details below each summary are collapsed."""
    if charts := size_charts([pair for pair in report.pairs if not words.is_own_job(pair)]):
        priced = any(Measure.DOLLARS in chart.measures for chart in charts)
        title = f"Time {'and dollars ' if priced else ''}over size"
        yield blocks.Section("sizes", title, [blocks.SizeCharts(charts)])
    for number, pair in enumerate(report.pairs, start=1):
        shown = [*_rows(pair), *([] if words.is_own_job(pair) else _jobs(pair))]
        if len(report.pairs) > 1:
            more = "" if words.is_own_job(pair) else ", cold starts, machines, jobs"
            shown = [blocks.Folded(f"Rows, crossovers{more}", shown)]
        summary = [blocks.Text(pair.summary, "summary")] if pair.summary else []
        yield blocks.Section(f"pair-{number}", pair.label, [*summary, *shown])


def _rows(pair: Pair) -> Iterator[blocks.Block]:
    prices = words.prices(pair)
    yield blocks.Text(f"Suite {pair.suite}{f'. {prices}' if prices else ''}.")
    if pair.refused:
        yield blocks.Text(f"Not compared: {pair.refused}", "notice")
    reasons = dict.fromkeys(total.reason for total in pair.totals if total.reason)
    notes = [*(f"Whole jobs: {reason}." for reason in reasons), *pair.notes]
    yield blocks.Remarks(words.price_notes(pair), notes)
    if pair.rows or pair.totals:
        yield blocks.Comparison(pair)
    if pair.uncompared:
        yield blocks.Uncompared(pair)
    if pair.crossovers:
        yield blocks.Facts("Crossovers", [_crossover(one, pair) for one in pair.crossovers])
        remarks = [
            f"{words.row_name(one)}: {remark}"
            for one in pair.crossovers
            for remark in words.crossover_remarks(one, pair)
        ]
        yield blocks.Remarks([], [*remarks, _meaning(pair)])


def _crossover(crossover: Crossover, pair: Pair) -> tuple[str, str]:
    sizes = f"{crossover.axis} {words.crossover_sizes(crossover.sizes)}"
    name = f"{words.row_name(crossover)} ({sizes})"
    return name, f"{'; '.join(words.crossover_figures(crossover, pair))}."


def _meaning(pair: Pair) -> str:
    text = (
        f"A crossover is the size from which {words.gpu_label(pair)} stays ahead of "
        f"{pair.cpu.target}."
    )
    if words.has_intervals(pair):
        text += (
            f" The {CONFIDENCE_TEXT} interval covers the spread of the samples and what may happen "
            "between the measured sizes."
        )
    return text + ("" if words.is_own_job(pair) else ONE_CALL)


def _jobs(pair: Pair) -> Iterator[blocks.Block]:
    """Yield the pair's cold starts, its machines (unless the pair was refused), and its jobs."""
    targets = (pair.gpu, pair.cpu)
    labels = {pair.gpu.target: words.gpu_label(pair), pair.cpu.target: pair.cpu.target}
    yield blocks.ColdStarts(pair.cold_starts, labels, not words.outside_ec2(targets))
    if not pair.refused:
        yield machines.Machines.of(targets)
    yield blocks.Jobs(machines.job_lines(targets, pair.job_costs), listed=True)
