"""Tasks that share a device, as tables and lines on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.table import Table
from rich.text import Text

from batchmark.analysis.sharing.tasks import SharedTask
from batchmark.report.sharing import words

FOLDED = {"Median replica", "Longest gap", "Start-up"}  # on the page alone


def curve_tables(task: SharedTask) -> Iterator[Table]:
    """A table for each mode."""
    headings = words.headings(task)
    shown = [place for place, name in enumerate(headings) if name not in FOLDED]
    for curve in task.curves:
        if not curve.points:
            continue
        knee = words.knee(curve)
        title = words.curve_name(task, curve) + (f"; {knee}" if knee else "")
        table = Table(
            title=Text(title),
            title_justify="left",
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            padding=(0, 0, 0, 1),
        )
        for place in shown:
            table.add_column(headings[place], justify="right")
        for point in curve.points:
            figures = words.cells(task, point)
            table.add_row(*(str(figures[place]) for place in shown))
        yield table


def other_lines(task: SharedTask) -> Iterator[str]:
    """What stands out, and the experiments."""
    yield from words.remarks(task)
    for found in task.experiments:
        first = words.became_of_first(found)
        yield f"{words.experiment_name(task, found)}: it {first}. {words.experiment(found)}"
