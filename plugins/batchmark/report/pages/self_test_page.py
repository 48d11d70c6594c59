"""A self-test as one self-contained HTML page and as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from batchmark.changes.self_test.records import Part, SelfTest, Source, Steps
from batchmark.core import formatting
from batchmark.core.shares import Rate
from batchmark.report.page import page_templates
from batchmark_job.result.values import CONFIDENCE_TEXT

SOURCES: dict[Source, str] = {
    "history": "Copies of the real history",
    "synthetic": "Synthetic histories",
}
NOT_REPLAYED = (
    "Fresh re-runs of suspects can't be replayed: with them the schedule finds large steps sooner "
    "and raises fewer false alarms than stated here."
)

TOP, BOTTOM, LEFT = 6, 88, 9  # frame of the recall chart, in percent
MARK_DISTANCE = 2.5  # between a size's two marks, in percent of the width


class Mark(NamedTuple):
    """A share with its interval, in percent of a chart's width and height."""

    kind: str
    x: float
    y: float
    low: float
    high: float


class RecallChart:
    """Shares found, against the size of the steps."""

    def __init__(self, steps: Sequence[Steps]) -> None:
        self.ticks = [(_height(percent / 100), f"{percent} %") for percent in (0, 50, 100)]
        self.sizes: list[tuple[float, str]] = []
        self.marks: list[Mark] = []
        for number, step in enumerate(steps):
            x = LEFT + (100 - LEFT) * (number + 0.5) / len(steps)
            self.sizes.append((round(x, 2), size(step)))
            self.marks.append(_mark("waited", x - MARK_DISTANCE / 2, step.found))
            self.marks.append(_mark("early", x + MARK_DISTANCE / 2, step.found_early))


class Bar(NamedTuple):
    """A bar of a delay chart, in percent of its width and height."""

    x: float
    width: float
    y: float
    height: float
    found: bool


def delay_bars(step: Steps, waited: int) -> list[Bar]:
    """How many steps were found after each number of runs; the last bar: how many never were."""
    counts = [step.delays.count(runs) for runs in range(1, waited + 1)]
    counts.append(step.found.cases - step.found.hits)
    width = 100 / (waited + 2)
    return [
        Bar(
            x=round((number + (number == waited)) * width, 2),
            width=round(0.8 * width, 2),
            y=round(100 - 100 * count / max(counts), 2),
            height=round(100 * count / max(counts), 2),
            found=number < waited,
        )
        for number, count in enumerate(counts)
        if count
    ]


def rate(rate: Rate) -> formatting.Figure:
    return formatting.Figure(
        f"{rate.hits} of {rate.cases}", f"{formatting.percent(rate.share)}, {rate.interval}"
    )


def size(step: Steps) -> str:
    return f"{100 * step.size:g} %"


def delay(step: Steps) -> str:
    if step.median_delay is None:
        return "-"
    runs = f"{step.median_delay:g} run{'' if step.median_delay == 1 else 's'}"
    first, last = step.delays[0], step.delays[-1]
    return runs if first == last else f"{runs} ({first} to {last})"


def alarms(part: Part) -> str:
    """False alarms in synthetic histories; in real ones nobody knows which alarms are false."""
    found = part.alarms
    if found.high is None:
        return "No run could be checked for alarms."
    what = "Alarms in untouched histories" if part.source == "history" else "False alarms"
    text = (
        f"{what}: {found.alarms} in {found.series_runs} runs of a series, {found.per_thousand:.2g} "
        f"per 1,000 ({CONFIDENCE_TEXT} interval {found.low:.2g} to {found.high:.2g})"
    )
    if part.source == "synthetic":
        return f"{text}."
    if found.alarms:
        text += f". Later runs did not bear out {found.withdrawn}; the others may be real changes"
    return f"{text}."


def summary(report: SelfTest) -> list[str]:
    """A line per suite, or a single line if there was nothing to test."""
    lines = []
    for suite in report.suites:
        for part in suite.parts:
            found = ", ".join(f"{rate(step.found).value} ({size(step)})" for step in part.of(None))
            result = f"steps found: {found}" if found else "no step could be planted"
            lines.append(f"Suite {suite.suite}, {SOURCES[part.source].lower()}: {result}.")
    return lines or ["Nothing to test: the history has no series that is long enough."]


def render_html(report: SelfTest) -> str:
    page = page_templates().get_template("self_test.html.jinja")
    return page.render(
        report=report,
        sources=SOURCES,
        not_replayed=NOT_REPLAYED,
        rate=rate,
        size=size,
        delay=delay,
        alarms=alarms,
        summary=summary,
        recall_chart=RecallChart,
        delay_bars=delay_bars,
    )


def render_table(report: SelfTest, console: Console) -> None:
    """Print the report, without its charts."""
    for line in (*report.notes, *summary(report)):
        console.print(Text(line), soft_wrap=True)
    for suite in report.suites:
        for note in suite.notes:
            console.print(Text(f"Note: {suite.suite}: {note}"), soft_wrap=True)
        for part in suite.parts:
            title = f"{suite.suite}: {SOURCES[part.source].lower()}"
            console.print(_table(title, part.steps, report))
            console.print(Text(alarms(part)), soft_wrap=True)
    if report.suites:
        console.print(Text(NOT_REPLAYED), soft_wrap=True)


def _table(title: str, steps: Sequence[Steps], report: SelfTest) -> Table:
    table = Table(
        *("steps put into", "size", f"found in {report.waited} runs"),
        *(f"found in {report.early} runs", "runs until found, median (range)"),
        title=Text(title),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for step in steps:
        table.add_row(
            Text(str(step.machine or "all")),
            size(step),
            str(rate(step.found)),
            str(rate(step.found_early)),
            delay(step),
        )
    return table


def _mark(kind: str, x: float, share: Rate) -> Mark:
    return Mark(kind, round(x, 2), _height(share.share), _height(share.low), _height(share.high))


def _height(share: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * share, 2)
