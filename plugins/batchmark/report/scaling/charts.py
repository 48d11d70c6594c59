"""Curves over the number of nodes, and the parts of a step.

Vega-Lite draws them as SVG: https://vega.github.io/vega-lite/.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from batchmark.analysis.scaling.curves import Curve
from batchmark.analysis.scaling.points import TrainingPoint
from batchmark.analysis.scaling.prediction import Prediction
from batchmark.analysis.scaling.studies import ScalingStudy, Training
from batchmark.core import formatting
from batchmark.core.intervals import Estimate
from batchmark.report.charts import COLOURS, DASHES, HEIGHT, LABELS, WIDTH, embedded
from batchmark.report.scaling import words
from batchmark.report.study_parts import StudyChart

IDEAL, PREDICTED, MEASURED = "ideal", "predicted", "measured"
ROOM = 1.1  # above the highest value
PLAIN = "format(datum.value, ',~g')"
TIME = f"datum.value == 0 ? '0' : {LABELS['time']}"
CLOSE = 1.3  # labels of an axis by powers of two that are nearer than this factor overlap


def training_charts(study: ScalingStudy, training: Training) -> list[StudyChart]:
    """Of a training with two numbers of nodes or more."""
    found = []
    curves = (*training.weak, *training.strong)
    if curves:
        title = "Efficiency: images per second of each node, over those of the fewest"
        found.append(StudyChart(title, _efficiency(study, curves)))
    if training.weak:
        found.append(StudyChart("Images per second", _speed(study, training.weak)))
        points = [point for point in training.points if _is_of(training.weak[0], point)]
        if all(point.split for point in points):
            title = f"Where a step's time goes, {words.curve_name(study, training.weak[0])}"
            found.append(StudyChart(title, _parts(points)))
    return found


def prediction_chart(study: ScalingStudy, curve: Curve, prediction: Prediction) -> StudyChart:
    """The prediction with its interval as a band, and what was measured as points on it."""
    devices = prediction.devices or 1
    name = "model" if prediction.outcome == "wrong" else PREDICTED
    predicted = [
        _value(name, point.ranks, point.efficiency, f"{words.devices(study, point.ranks)}")
        for point in prediction.points
    ]
    measured = [
        _value(
            MEASURED,
            point.nodes * devices,
            point.efficiency,
            words.devices(study, point.nodes * devices),
        )
        for point in curve.points
    ]
    names = [name, MEASURED]
    last = predicted[-1]["size"]
    ranks = [size for value in predicted if (size := value["size"]) == last or size * CLOSE < last]
    scale = alt.Scale(type="log", base=2, nice=False)
    axis = alt.Axis(values=ranks, labelOverlap="greedy", format="d")
    x = alt.X("size:Q", scale=scale, axis=axis, title=words.devices(study, 2)[2:])
    y = _y([*predicted, *measured, {"high": 1.0}], "efficiency")
    colour = alt.Color("name:N", scale=alt.Scale(domain=names, range=COLOURS), title=None)
    base = alt.Chart(alt.InlineData(values=predicted)).encode(
        x=x, color=colour, description="text:N"
    )
    dots = alt.Chart(alt.InlineData(values=measured)).encode(
        x=x, color=colour, description="text:N"
    )
    layers = [
        _ideal_rule(y),
        base.mark_area(opacity=0.25).encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        base.mark_line(strokeDash=DASHES[1]).encode(y=alt.Y("amount:Q", **y)),
        dots.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        dots.mark_point(filled=True, size=50).encode(y=alt.Y("amount:Q", **y)),
    ]
    return StudyChart(
        f"Efficiency, {words.curve_name(study, curve)}",
        embedded(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)),
    )


def _efficiency(study: ScalingStudy, curves: Sequence[Curve]) -> str:
    values = [
        _value(words.curve_name(study, curve), point.nodes, point.efficiency)
        for curve in curves
        for point in curve.points
    ]
    y = _y([*values, {"high": 1.0}], "efficiency")
    return _lines(values, y, [_ideal_rule(y)])


def _speed(study: ScalingStudy, curves: Sequence[Curve]) -> str:
    values, ideal = [], []
    for curve in curves:
        name, first = words.curve_name(study, curve), curve.points[0]
        for point in curve.points:
            values.append(_value(name, point.nodes, point.images_per_second))
            amount = first.images_per_second.value * point.nodes / first.nodes
            ideal.append({"name": name, "size": point.nodes, "amount": amount, "high": amount})
    y = _y([*values, *ideal], "images/s")
    line = (
        alt.Chart(alt.InlineData(values=ideal))
        .mark_line(strokeDash=[2, 2], strokeWidth=1, color="currentColor")
        .encode(
            x=alt.X("size:Q"),
            y=alt.Y("amount:Q", **y),
            detail="name:N",
        )
    )
    return _lines(values, y, [line])


def _lines(values: list[dict[str, Any]], y: dict[str, Any], below: Iterable[Any]) -> str:
    names = list(dict.fromkeys(value["name"] for value in values))
    numbers = sorted({value["size"] for value in values})
    colours, dashes = (alt.Scale(domain=names, range=one) for one in (COLOURS, DASHES))
    axis = alt.Axis(values=numbers, labelOverlap="greedy", format="d")
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("size:Q", scale=alt.Scale(zero=True, nice=False), title="nodes", axis=axis),
        color=alt.Color("name:N", scale=colours, title=None),
        description="text:N",
    )
    band = base.mark_area(opacity=0.25).encode(y=alt.Y("low:Q", **y), y2="high:Q")
    line = base.mark_line(point=True).encode(
        y=alt.Y("amount:Q", **y),
        strokeDash=alt.StrokeDash("name:N", scale=dashes, title=None),
    )
    layers = [*below, band, line]
    return embedded(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT))


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
    chart = (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar()
        .encode(
            x=alt.X("nodes:N", sort=None, title="nodes", axis=alt.Axis(labelAngle=0)),
            y=alt.Y(
                "sum(seconds):Q",
                title="parts of a step",
                axis=alt.Axis(labelExpr=TIME, tickCount=5),
            ),
            color=alt.Color(
                "part:N",
                scale=alt.Scale(domain=names, range=COLOURS),
                title=None,
                sort=names,
                legend=alt.Legend(symbolType="square"),
            ),
            order="place:Q",
            description="text:N",
        )
    )
    return embedded(chart.properties(width=WIDTH, height=HEIGHT))


def _value(name: str, size: int, figure: Estimate, at: str | None = None) -> dict[str, Any]:
    ends = figure.interval
    return {
        "name": name,
        "size": size,
        "amount": figure.value,
        "low": ends.low if ends else figure.value,
        "high": ends.high if ends else figure.value,
        "text": f"{name}, {at or words.nodes(size)}: {formatting.number(figure)}",
    }


def _y(values: Sequence[dict[str, Any]], title: str) -> dict[str, Any]:
    most = max(value["high"] for value in values)
    return {
        "scale": alt.Scale(domain=[0, ROOM * most], nice=False),
        "title": title,
        "axis": alt.Axis(labelExpr=PLAIN, tickCount=5),
    }


def _is_of(curve: Curve, point: TrainingPoint) -> bool:
    found = curve.point(point.nodes)
    return found is not None and found.batch == point.batch
