"""A section for each pair of targets: rows, crossovers, cold starts, machines, jobs."""

from __future__ import annotations

from collections.abc import Iterator

from batchmark.analysis.pairs.answer import Measure
from batchmark.analysis.pairs.crossover import Crossover
from batchmark.analysis.pairs.pair import Pair
from batchmark.report import machines, words
from batchmark.report.blocks import (
    Block,
    ColdStarts,
    Comparison,
    Facts,
    Folded,
    Jobs,
    Machines,
    Remarks,
    Section,
    SizeCharts,
    Text,
    Uncompared,
)
from batchmark.report.charts import size_charts
from batchmark.report.model import Report
from batchmark_job.result.confidence import CONFIDENCE_TEXT

ONE_CALL = (
    " One call: a job that makes a single call, from process start until the device is ready, then "
    "inputs in, first call, output out. Queue, image and container are under cold start below and "
    "in no crossover; nor are libraries that an earlier workload had loaded."
)


def sections(report: Report) -> Iterator[Section]:
    """With several pairs, all but the summaries is folded."""
    if charts := size_charts([pair for pair in report.pairs if not words.is_own_job(pair)]):
        priced = any(Measure.DOLLARS in chart.measures for chart in charts)
        title = f"Time {'and dollars ' if priced else ''}over size"
        yield Section("sizes", title, [SizeCharts(charts)])
    for number, pair in enumerate(report.pairs, start=1):
        blocks = [*_rows(pair), *([] if words.is_own_job(pair) else _jobs(pair))]
        if len(report.pairs) > 1:
            more = "" if words.is_own_job(pair) else ", cold starts, machines, jobs"
            blocks = [Folded(f"Rows, crossovers{more}", blocks)]
        summary = [Text(pair.summary, "summary")] if pair.summary else []
        yield Section(f"pair-{number}", pair.label, [*summary, *blocks])


def _rows(pair: Pair) -> Iterator[Block]:
    prices = words.prices(pair)
    yield Text(f"Suite {pair.suite}{f'. {prices}' if prices else ''}.")
    if pair.refused:
        yield Text(f"Not compared: {pair.refused}", "notice")
    reasons = dict.fromkeys(total.reason for total in pair.totals if total.reason)
    notes = [*(f"Whole jobs: {reason}." for reason in reasons), *pair.notes]
    yield Remarks(words.price_notes(pair), notes)
    if pair.rows or pair.totals:
        yield Comparison(pair)
    if pair.uncompared:
        yield Uncompared(pair)
    if pair.crossovers:
        yield Facts("Crossovers", [_crossover(one, pair) for one in pair.crossovers])
        remarks = [
            f"{words.crossover_name(one)}: {remark}"
            for one in pair.crossovers
            for remark in words.crossover_remarks(one, pair)
        ]
        yield Remarks([], [*remarks, _meaning(pair)])


def _crossover(crossover: Crossover, pair: Pair) -> tuple[str, str]:
    kinds = zip(words.crossover_kinds(pair), words.crossover_figures(crossover, pair), strict=True)
    found = [f"{kind} {figure}" for kind, figure in kinds if figure]
    name = f"{words.crossover_name(crossover)} ({words.crossover_sizes(crossover)})"
    return name, f"{'; '.join(found)}."


def _meaning(pair: Pair) -> str:
    text = (
        f"A crossover is the size from which {words.gpu_label(pair)} stays ahead of "
        f"{pair.cpu.target}. The {CONFIDENCE_TEXT} interval holds the spread of the samples and "
        "what may lie between the sizes measured."
    )
    return text + ("" if words.is_own_job(pair) else ONE_CALL)


def _jobs(pair: Pair) -> Iterator[Block]:
    """Own jobs have theirs with all sides together."""
    targets = (pair.gpu, pair.cpu)
    labels = {pair.gpu.target: words.gpu_label(pair), pair.cpu.target: pair.cpu.target}
    yield ColdStarts(pair.cold_starts, labels, not words.outside_ec2([pair]))
    if not pair.refused:
        yield Machines(machines.Machines.of(targets))
    yield Jobs(machines.job_lines(targets, pair.job_costs), listed=True)
