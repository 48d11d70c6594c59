"""Curves over the number of replicas, one line for each mode.

Vega-Lite draws them as SVG: https://vega.github.io/vega-lite/.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Literal

import altair as alt

from batchmark.analysis.sharing.curves import STEPS, Curve, Point
from batchmark.analysis.sharing.tasks import SharedTask
from batchmark.core import formatting
from batchmark.core.intervals import Estimate
from batchmark.report.charts import COLOURS, DASHES, HEIGHT, LABELS, WIDTH, Mark, embedded, rules
from batchmark.report.sharing import words
from batchmark.report.study_parts import StudyChart

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
    "throughput": "format(datum.value, ',~g')",
    "p95": LABELS["time"],
    "dollars": LABELS["dollars"],
}


def sharing_charts(task: SharedTask) -> list[StudyChart]:
    """One for each amount that is known at two numbers of replicas or more."""
    found = []
    for amount, title in TITLES.items():
        values = [value for curve in task.curves for value in _values(task, curve, amount)]
        if len({value["size"] for value in values}) >= LEAST_NUMBERS:
            marks = _knees(task) if amount == "throughput" else []
            found.append(StudyChart(title, _draw(values, amount, marks)))
    return found


def _values(task: SharedTask, curve: Curve, amount: Amount) -> Iterator[dict[str, Any]]:
    name = words.curve_name(task, curve)
    for point in curve.points:
        if figure := _figure(point, amount):
            ends = figure.interval
            yield {
                "mode": name,
                "size": point.replicas,
                "amount": figure.value,
                "low": ends.low if ends else figure.value,
                "high": ends.high if ends else figure.value,
                "text": f"{name}, {formatting.count(point.replicas, 'replica')}: "
                f"{_said(figure, amount)}",
            }


def _figure(point: Point, amount: Amount) -> Estimate | None:
    if amount == "throughput":
        return point.throughput
    if amount == "dollars":
        return point.usd_per_1000_steps
    p95 = point.figures.slowest.p95
    return None if p95 is None else Estimate(value=p95, interval=None)


def _said(figure: Estimate, amount: Amount) -> str:
    if amount == "throughput":
        return f"{formatting.number(figure)} steps/s"
    return str(formatting.usd_figure(figure) if amount == "dollars" else formatting.time(figure))


def _knees(task: SharedTask) -> list[Mark]:
    """A line at each knee that is known, with the modes whose knee it is."""
    modes: dict[int, list[str]] = defaultdict(list)
    for curve in task.curves:
        if curve.knee and curve.knee.outcome == "found" and curve.knee.replicas:
            modes[curve.knee.replicas].append(words.curve_name(task, curve))
    return [
        Mark(replicas, f"knee at {replicas}: {', '.join(names)}")
        for replicas, names in modes.items()
    ]


def _draw(values: list[dict[str, Any]], amount: Amount, marks: list[Mark]) -> str:
    names = list(dict.fromkeys(value["mode"] for value in values))
    scale: dict[str, Any] = {"domain": names}
    colours, dashes = (alt.Scale(**scale, range=one) for one in (COLOURS, DASHES))
    numbers = sorted({value["size"] for value in values})
    linear = alt.Scale(zero=True, nice=False)
    most = max(value["high"] for value in values)
    y: dict[str, Any] = {
        "scale": alt.Scale(domain=[0, ROOM_FOR_WORDS * most], nice=False),
        "title": UNITS[amount],
        "axis": alt.Axis(labelExpr=AXES[amount], tickCount=5),
    }
    x_axis = alt.Axis(values=numbers, labelOverlap="greedy", format="d")
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("size:Q", scale=linear, title="replicas", axis=x_axis),
        color=alt.Color("mode:N", scale=colours, title=None),
        description="text:N",
    )
    band = base.mark_area(opacity=0.25).encode(y=alt.Y("low:Q", **y), y2="high:Q")
    line = base.mark_line(point=True).encode(
        y=alt.Y("amount:Q", **y),
        strokeDash=alt.StrokeDash("mode:N", scale=dashes, title=None),
    )
    layers = [band, line, *rules(marks, linear)]
    return embedded(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT))
