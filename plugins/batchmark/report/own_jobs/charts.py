"""Charts time and cost of a user's own job along its axis, and its cost against its time.

Vega-Lite renders the charts as SVG: https://vega.github.io/vega-lite/.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import altair as alt

from batchmark.analysis.own_jobs.records import OwnJobStudy, Place
from batchmark.analysis.pairs.answer import Measure
from batchmark.core import formatting
from batchmark.core.intervals import Estimate
from batchmark.report import charts
from batchmark.report.blocks import Chart, grouped
from batchmark.report.log_axis import log_axis
from batchmark.report.own_jobs import words
from batchmark.report.own_jobs.standings import main_places
from batchmark.report.size_charts import LEAST_SIZES, Point, SizeChart
from batchmark.report.words import JOB

LEAST_POINTS = 2  # of dollars over time
ROOM = 1.25  # beyond the outermost points, which lie close together without an axis


def job_charts(study: OwnJobStudy) -> list[Chart]:
    """Chart the jobs with the most common kind of start."""
    places = main_places(study)
    found = []
    sizes = _sizes(study, places)
    if len(sizes.sizes) >= LEAST_SIZES:
        found.append(Chart(f"Time per job over {study.axis}", partial(charts.draw, sizes)))
        if Measure.DOLLARS in sizes.measures:
            title = f"Dollars per job over {study.axis}"
            found.append(Chart(title, partial(charts.draw, sizes, Measure.DOLLARS)))
    values = list(_paid(study, places))
    if len(charts.names_of(values)) >= LEAST_POINTS:
        found.append(Chart("Dollars over time: lower left is better", partial(_dollars, values)))
    return found


def _sizes(study: OwnJobStudy, places: Sequence[Place]) -> SizeChart:
    targets: dict[str, dict[float, Point]] = {}
    names = words.names(study)
    for side, figure in words.figures(study):
        size = figure.place.size
        if figure.seconds and size is not None and figure.place in places:
            points = targets.setdefault(names[side.target.target], {})
            points[float(size)] = Point(figure.seconds, usd=figure.usd_per_job)
    return SizeChart(study.name, study.axis or "", targets, per=JOB)


def _paid(study: OwnJobStudy, places: Sequence[Place]) -> Iterator[dict[str, Any]]:
    names = words.names(study)
    paid = [
        (side, figure.place, figure.seconds, figure.usd_per_job)
        for side, figure in words.figures(study)
        if figure.seconds and figure.usd_per_job and figure.place in places
    ]
    times = grouped((place, seconds) for _, place, seconds, _ in paid)
    dollars = grouped((place, usd) for _, place, _, usd in paid)
    for side, place, seconds, usd in paid:
        name, where = names[side.target.target], words.at(study, [place.size])
        time = formatting.time(seconds, times[place])
        figures = f"{time}, {formatting.usd_figure(usd, dollars[place])}"
        yield {
            "name": name,
            "size": place.size,
            **_ends("seconds", seconds),
            **_ends("usd", usd),
            "text": ", ".join(filter(None, (name, where, figures))),
        }


def _ends(name: str, figure: Estimate) -> dict[str, float]:
    low, high = charts.ends(figure)
    return {name: figure.value, f"{name}_low": low, f"{name}_high": high}


def _dollars(values: list[dict[str, Any]]) -> str:
    """Plot cost against time, with a line per side from its smallest size to its largest."""
    x = _axis(values, "seconds", "time of a job", charts.LABELS[Measure.TIME], alt.X)
    y = _axis(values, "usd", "dollars per job", charts.LABELS[Measure.DOLLARS], alt.Y)
    base = charts.lines_of(values, x).encode(y=y)
    layers = [
        base.mark_line(point=True).encode(strokeDash=charts.dashes_of(values), order="size:Q")
    ]
    if any(value["seconds_low"] < value["seconds_high"] for value in values):
        layers.append(
            base.mark_rule(opacity=0.5).encode(
                x=alt.X("seconds_low:Q"), x2="seconds_high:Q", y=alt.Y("usd:Q")
            )
        )
    return charts.layered(*layers)


def _axis(
    values: Sequence[dict[str, Any]], name: str, title: str, labels: str, channel: Any
) -> Any:
    low = min(value[f"{name}_low"] for value in values) / ROOM
    high = max(value[f"{name}_high"] for value in values)
    top, ticks = log_axis(low, high)
    scale = alt.Scale(type="log", nice=False, domain=[low, max(top, high * ROOM)])
    axis = alt.Axis(labelExpr=labels, values=ticks or alt.Undefined)
    return channel(f"{name}:Q", scale=scale, title=title, axis=axis)
