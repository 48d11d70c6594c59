"""Builds one section per task that shared a device: curves, tables, experiments and jobs."""

from __future__ import annotations

from collections.abc import Iterator

from batchmark.analysis.sharing.curves import STEPS, Curve
from batchmark.analysis.sharing.replicas import OUTCOMES, ReplicaFigures, StepTimes
from batchmark.analysis.sharing.studies import SharedTask
from batchmark.core import formatting
from batchmark.report.blocks import (
    Block,
    Charts,
    ComparedFigure,
    Facts,
    Remarks,
    Section,
    Table,
    Text,
    Traces,
)
from batchmark.report.model import Report
from batchmark.report.sharing import words
from batchmark.report.sharing.charts import sharing_charts
from batchmark_job.result.confidence import CONFIDENCE_TEXT

DOLLARS = f"{STEPS:,} steps"
ON_PAGE_ALONE = frozenset({"Median replica", "Longest gap", "Start-up"})


def sections(report: Report) -> Iterator[Section]:
    for number, task in enumerate(report.of(SharedTask), start=1):
        yield Section(f"shared-{number}", words.task_name(task), list(_blocks(task)))


def _blocks(task: SharedTask) -> Iterator[Block]:
    yield Text(words.about(task))
    if task.refused:
        yield Text(f"Not judged: {task.refused}", "notice")
    yield Charts(
        f"Medians by replica count, and their {CONFIDENCE_TEXT} intervals as bands. A "
        "dotted vertical line marks a knee.",
        sharing_charts(task),
    )
    yield from (curve_table(task, curve) for curve in task.curves if curve.points)
    yield Remarks(list(words.remarks(task)))
    if task.experiments:
        facts = [
            (
                words.experiment_name(task, one),
                f"It {OUTCOMES[one.first.outcome] if one.first else 'left nothing'}. "
                f"{words.experiment(one)}",
            )
            for one in task.experiments
        ]
        yield Facts("If one replica fails", facts)
    yield Traces(task.target.jobs)


def curve_table(task: SharedTask, curve: Curve) -> Table:
    knee = words.knee(curve)
    return Table.of(
        f"Table of {words.curve_name(task, curve)}" + (f": {knee}" if knee else ""),
        "Steps/s are those of all replicas together. Interference is the slowest replica's median "
        f"step divided by that of one alone. {words.memory_note(task, curve)}",
        curve.points,
        {
            "Replicas": lambda point: point.replicas,
            "Steps/s": lambda point: ComparedFigure(point.throughput, formatting.number),
            "Over one alone": lambda point: ComparedFigure(point.gain, formatting.factor),
            DOLLARS: lambda point: ComparedFigure(point.usd_per_1000_steps, formatting.usd_figure),
            "Slowest: p50, p95, p99": lambda point: _times(point.figures.slowest),
            "Median replica": lambda point: _times(point.figures.typical),
            "Interference": lambda point: (
                formatting.multiple(point.interference) if point.interference else None
            ),
            "Fairness": lambda point: _fairness(point.figures),
            "Longest gap": lambda point: _seconds(point.figures.longest_gap_seconds),
            "Start-up": lambda point: _seconds(point.figures.startup_seconds),
            "Memory": lambda point: _memory(point.figures),
        },
        without=() if task.price.usd_per_hour else (DOLLARS,),
        folded=True,
        on_page_alone=ON_PAGE_ALONE,
    )


def _times(times: StepTimes) -> str:
    return ", ".join(_seconds(one) for one in (times.p50, times.p95, times.p99))


def _seconds(value: float | None) -> str:
    return "-" if value is None else formatting.seconds(value)


def _fairness(figures: ReplicaFigures) -> str | None:
    if figures.fairness_worst is None or figures.fairness_median is None:
        return None
    return f"{figures.fairness_median:.2f}, worst {figures.fairness_worst:.2f}"


def _memory(figures: ReplicaFigures) -> str | None:
    """Format the memory including the GPU context if known, else the peak memory without it."""
    size = figures.device_memory_bytes
    size = figures.peak_memory_bytes if size is None else size
    return None if size is None else formatting.memory(size)
