"""Charts scaling curves by node count, and the parts of a step.

Vega-Lite renders the charts as SVG: https://vega.github.io/vega-lite/.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import altair as alt

from batchmark.analysis.pairs.answer import Measure
from batchmark.analysis.scaling.curves import Curve
from batchmark.analysis.scaling.points import TrainingPoint
from batchmark.analysis.scaling.prediction import Prediction
from batchmark.analysis.scaling.studies import ScalingStudy, Training
from batchmark.core import formatting
from batchmark.report import charts
from batchmark.report.blocks import Chart
from batchmark.report.scaling import words
from batchmark.report.words import IMAGE_RATE

PREDICTED, MEASURED = "predicted", "measured"
TIME = f"datum.value == 0 ? '0' : {charts.LABELS[Measure.TIME]}"
CLOSE = 1.3  # labels nearer than this factor overlap on an axis by powers of two


def training_charts(study: ScalingStudy, training: Training) -> list[Chart]:
    """Chart a training; the list is empty unless it was measured at two or more node counts."""
    found = []
    if of := (*training.weak, *training.strong):
        title = "Efficiency: images per second per node, relative to the fewest nodes"
        found.append(Chart(title, partial(_efficiency, study, of)))
    if training.weak:
        found.append(Chart("Images per second", partial(_speed, study, training.weak)))
        points = [point for point in training.points if words.on_curve(training.weak[0], point)]
        if all(point.split for point in points):
            title = f"Where a step's time goes, {words.curve_name(study, training.weak[0])}"
            found.append(Chart(title, partial(_parts, points)))
    return found


def prediction_chart(study: ScalingStudy, curve: Curve, prediction: Prediction) -> Chart:
    """Chart the prediction with its interval as a band, and measurements as points."""
    devices = prediction.devices or 1
    name = "model" if prediction.outcome == "wrong" else PREDICTED
    found = [(name, point.ranks, point.efficiency) for point in prediction.points]
    found += [(MEASURED, point.nodes * devices, point.efficiency) for point in curve.points]
    values = charts.figures_of(found, partial(words.devices, study), formatting.number)
    predicted, measured = values[: len(prediction.points)], values[len(prediction.points) :]
    last = predicted[-1]["size"]
    ranks = [size for value in predicted if (size := value["size"]) == last or size * CLOSE < last]
    scale = alt.Scale(type="log", base=2, nice=False)
    axis = alt.Axis(values=ranks, labelOverlap="greedy", format="d")
    x = alt.X("size:Q", scale=scale, axis=axis, title=words.devices(study, 2)[2:])
    y = charts.from_zero([*predicted, *measured, {"high": 1.0}], "efficiency")
    colour = alt.Color(
        "name:N", scale=alt.Scale(domain=[name, MEASURED], range=charts.COLOURS), title=None
    )
    base, dots = (charts.lines_of(of, x).encode(color=colour) for of in (predicted, measured))
    layers = [
        _ideal_rule(y),
        base.mark_area(opacity=0.25).encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        base.mark_line(strokeDash=charts.DASHES[1]).encode(y=alt.Y("amount:Q", **y)),
        dots.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        dots.mark_point(filled=True, size=50).encode(y=alt.Y("amount:Q", **y)),
    ]
    return Chart(f"Efficiency, {words.curve_name(study, curve)}", partial(charts.layered, *layers))


def _efficiency(study: ScalingStudy, of: Sequence[Curve]) -> str:
    found = (
        (words.curve_name(study, curve), point.nodes, point.efficiency)
        for curve in of
        for point in curve.points
    )
    values = charts.figures_of(found, words.nodes, formatting.number)
    y = charts.from_zero([*values, {"high": 1.0}], "efficiency")
    return charts.curves(values, charts.counted(values, "nodes"), y, below=[_ideal_rule(y)])


def _speed(study: ScalingStudy, of: Sequence[Curve]) -> str:
    found, ideal = [], []
    for curve in of:
        name, first = words.curve_name(study, curve), curve.points[0]
        for point in curve.points:
            found.append((name, point.nodes, point.images_per_second))
            amount = first.images_per_second.value * point.nodes / first.nodes
            ideal.append({"name": name, "size": point.nodes, "amount": amount, "high": amount})
    values = charts.figures_of(found, words.nodes, formatting.number)
    y = charts.from_zero([*values, *ideal], IMAGE_RATE)
    line = (
        alt.Chart(alt.InlineData(values=ideal))
        .mark_line(strokeDash=[2, 2], strokeWidth=1, color="currentColor")
        .encode(x=alt.X("size:Q"), y=alt.Y("amount:Q", **y), detail="name:N")
    )
    return charts.curves(values, charts.counted(values, "nodes"), y, below=[line])


def _ideal_rule(y: dict[str, Any]) -> Any:
    return (
        alt.Chart(alt.InlineData(values=[{"amount": 1.0}]))
        .mark_rule(strokeDash=[2, 2], color="currentColor")
        .encode(y=alt.Y("amount:Q", **y))
    )


def _parts(points: Sequence[TrainingPoint]) -> str:
    values = [
        {
            "part": name,
            "nodes": str(point.nodes),
            "seconds": seconds,
            "place": place,
            "text": f"{words.nodes(point.nodes)}: {name} {formatting.seconds(seconds)}",
        }
        for point in points
        if point.split
        for place, (name, seconds) in enumerate(point.split.parts.items())
    ]
    names = list(dict.fromkeys(str(value["part"]) for value in values))
    scale, legend = alt.Scale(domain=names, range=charts.COLOURS), alt.Legend(symbolType="square")
    y = alt.Axis(labelExpr=TIME, tickCount=5)
    chart = (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar()
        .encode(
            x=alt.X("nodes:N", sort=None, title="nodes", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("sum(seconds):Q", title="parts of a step", axis=y),
            color=alt.Color("part:N", scale=scale, title=None, sort=names, legend=legend),
            order="place:Q",
            description="text:N",
        )
    )
    return charts.embedded(chart.properties(width=charts.WIDTH, height=charts.HEIGHT))
