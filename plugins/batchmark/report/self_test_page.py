"""A self-test as one self-contained HTML page and as tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from batchmark import self_test_words
from batchmark.report_page import page_templates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from batchmark.rates import Rate
    from batchmark.self_test_records import SelfTest, Steps

TOP, BOTTOM, LEFT = 6, 88, 9  # of the recall chart's frame, in percent
BESIDE = 2.5  # percent of the width between the marks of one size


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
        for number, one in enumerate(steps):
            x = LEFT + (100 - LEFT) * (number + 0.5) / len(steps)
            self.sizes.append((round(x, 2), self_test_words.size(one)))
            self.marks.append(_mark("waited", x - BESIDE / 2, one.found))
            self.marks.append(_mark("early", x + BESIDE / 2, one.found_early))


class Bar(NamedTuple):
    """Of a delay chart, in percent of its width and height."""

    x: float
    width: float
    y: float
    height: float
    found: bool


def delay_bars(one: Steps, waited: int) -> list[Bar]:
    """How many steps were found after each number of runs; the last bar is of those never found."""
    counts = [one.delays.count(runs) for runs in range(1, waited + 1)]
    counts.append(one.found.cases - one.found.hits)
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


def render_html(report: SelfTest) -> str:
    page = page_templates().get_template("self_test.html.jinja")
    return page.render(
        report=report, words=self_test_words, recall_chart=RecallChart, delay_bars=delay_bars
    )


def render_table(report: SelfTest, console: Console) -> None:
    """Print the report, without its charts."""
    for line in (*report.notes, *self_test_words.summary(report)):
        console.print(Text(line), soft_wrap=True)
    for suite in report.suites:
        for note in suite.notes:
            console.print(Text(f"Note: {suite.suite}: {note}"), soft_wrap=True)
        for part in suite.parts:
            title = f"{suite.suite}: {self_test_words.SOURCES[part.source].lower()}"
            console.print(_table(title, part.steps, report))
            console.print(Text(self_test_words.alarms(part)), soft_wrap=True)
    if report.suites:
        console.print(Text(self_test_words.NOT_REPLAYED), soft_wrap=True)


def _table(title: str, steps: Sequence[Steps], report: SelfTest) -> Table:
    table = Table(
        *("steps put into", "size", f"found in {report.waited} runs"),
        *(f"found in {report.early} runs", "runs until found, median (range)"),
        title=Text(title),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for one in steps:
        table.add_row(
            Text(str(one.machine or "all")),
            self_test_words.size(one),
            str(self_test_words.rate(one.found)),
            str(self_test_words.rate(one.found_early)),
            self_test_words.delay(one),
        )
    return table


def _mark(kind: str, x: float, one: Rate) -> Mark:
    return Mark(kind, round(x, 2), _height(one.share), _height(one.low), _height(one.high))


def _height(share: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * share, 2)
