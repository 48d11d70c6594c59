"""Charts how tasks share a device, by replica count, with one line per mode.

Vega-Lite renders the charts as SVG: https://vega.github.io/vega-lite/.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import altair as alt

from batchmark.analysis.pairs.answer import Measure
from batchmark.analysis.sharing.curves import STEPS, Point
from batchmark.analysis.sharing.studies import SharedTask
from batchmark.core import formatting
from batchmark.core.formatting import Others
from batchmark.core.intervals import Estimate
from batchmark.report import charts
from batchmark.report.blocks import Chart, grouped
from batchmark.report.sharing import words
from batchmark.report.size_charts import Mark

LEAST_NUMBERS = 2  # of replicas
ROOM_FOR_WORDS = 1.15  # above the highest curve
Amount = Literal["throughput", "p95", "dollars"]
TITLES: dict[Amount, str] = {
    "throughput": "Steps per second of all replicas",
    "p95": "95 of 100 steps of the slowest replica take at most",
    "dollars": f"Dollars for {STEPS:,} steps",
}
UNITS: dict[Amount, str] = {"throughput": "steps/s", "p95": "time", "dollars": "dollars"}
AXES: dict[Amount, str] = {
    "throughput": charts.PLAIN,
    "p95": charts.LABELS[Measure.TIME],
    "dollars": charts.LABELS[Measure.DOLLARS],
}


def sharing_charts(task: SharedTask) -> list[Chart]:
    """Draw one chart for each quantity known at two or more replica counts."""
    found = []
    for amount, title in TITLES.items():
        values = _values(task, amount)
        if len({value["size"] for value in values}) >= LEAST_NUMBERS:
            marks = _knees(task) if amount == "throughput" else []
            found.append(Chart(title, partial(_draw, values, amount, marks)))
    return found


def _values(task: SharedTask, amount: Amount) -> list[dict[str, Any]]:
    found = (
        (words.curve_name(task, curve), point.replicas, figure)
        for curve in task.curves
        for point in curve.points
        if (figure := _figure(point, amount))
    )
    replicas = partial(formatting.count, singular="replica")
    return charts.figures_of(found, replicas, partial(_said, amount))


def _figure(point: Point, amount: Amount) -> Estimate | None:
    if amount == "throughput":
        return point.throughput
    if amount == "dollars":
        return point.usd_per_1000_steps
    p95 = point.figures.slowest.p95
    return None if p95 is None else Estimate(value=p95, interval=None)


def _said(amount: Amount, figure: Estimate, beside: Others) -> str:
    if amount == "throughput":
        return f"{formatting.number(figure, beside)} {UNITS[amount]}"
    form = formatting.usd_figure if amount == "dollars" else formatting.time
    return str(form(figure, beside))


def _knees(task: SharedTask) -> list[Mark]:
    """Mark each known knee, labelled with its modes."""
    modes = grouped(
        (curve.knee.replicas, words.curve_name(task, curve))
        for curve in task.curves
        if curve.knee and curve.knee.outcome == "found" and curve.knee.replicas
    )
    return [
        Mark(replicas, f"knee at {replicas}: {', '.join(names)}")
        for replicas, names in modes.items()
    ]


def _draw(values: list[dict[str, Any]], amount: Amount, marks: list[Mark]) -> str:
    y = charts.from_zero(values, UNITS[amount], AXES[amount], ROOM_FOR_WORDS)
    knees = charts.rules(marks, alt.Scale(zero=True, nice=False))
    return charts.curves(values, charts.counted(values, "replicas"), y, above=knees)
