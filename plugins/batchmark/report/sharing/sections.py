"""A section for each task that shared a device: curves, tables, experiments, jobs."""

from __future__ import annotations

from collections.abc import Iterator

from batchmark.analysis.sharing.curves import Curve
from batchmark.analysis.sharing.studies import SharedTask
from batchmark.report.blocks import Block, Charts, Facts, Remarks, Section, Table, Text, Traces
from batchmark.report.model import Report
from batchmark.report.sharing import words
from batchmark.report.sharing.charts import sharing_charts
from batchmark_job.result.confidence import CONFIDENCE_TEXT

ON_PAGE_ALONE = frozenset({"Median replica", "Longest gap", "Start-up"})


def sections(report: Report) -> Iterator[Section]:
    for number, task in enumerate(report.of(SharedTask), start=1):
        yield Section(f"shared-{number}", words.task_name(task), list(_blocks(task)))


def _blocks(task: SharedTask) -> Iterator[Block]:
    yield Text(words.about(task))
    if task.refused:
        yield Text(f"Not judged: {task.refused}", "notice")
    yield Charts(
        f"Medians over the number of replicas, and their {CONFIDENCE_TEXT} intervals as bands. A "
        "dotted upright line marks a knee.",
        sharing_charts(task),
    )
    yield from (_table(task, curve) for curve in task.curves if curve.points)
    yield Remarks(list(words.remarks(task)))
    if task.experiments:
        facts = [
            (
                words.experiment_name(task, one),
                f"It {words.became_of_first(one)}. {words.experiment(one)}",
            )
            for one in task.experiments
        ]
        yield Facts("If one replica fails", facts)
    yield Traces(task.target.jobs)


def _table(task: SharedTask, curve: Curve) -> Table:
    knee = words.knee(curve)
    return Table(
        f"Table of {words.curve_name(task, curve)}" + (f": {knee}" if knee else ""),
        "Steps/s are of all replicas together. Interference is the slowest replica's median step "
        f"over that of one alone. {words.memory_note(task, curve)}",
        words.headings(task),
        [words.cells(task, point) for point in curve.points],
        folded=True,
        on_page_alone=ON_PAGE_ALONE,
    )
