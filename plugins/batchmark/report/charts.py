"""Draws charts of time and cost, with all targets in one chart.

Vega-Lite renders the charts as SVG: https://vega.github.io/vega-lite/.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import vl_convert

from batchmark.analysis.pairs.answer import Measure
from batchmark.core import formatting
from batchmark.core.intervals import Estimate
from batchmark.report.log_axis import log_axis
from batchmark.report.size_charts import Mark, SizeChart

# An axis' labels in Vega's expressions; its own "300m" reads as minutes.
LABELS: dict[Measure, str] = {
    Measure.TIME: "datum.value >= 1 ? format(datum.value, ',~g') + ' s' : datum.value >= 1e-3 ? "
    "format(datum.value * 1e3, '~g') + ' ms' : format(datum.value * 1e6, '~g') + ' µs'",
    Measure.DOLLARS: "format(datum.value, ',~g')",
}
# A point or line with a description, which browsers show as a tooltip once it is a title.
NAMED_MARK = re.compile(
    r'<(path|line)( aria-label="([^"]*)" role="graphics-symbol" '
    r'aria-roledescription="(?:point|rule mark)"[^>]*)/>'
)
WIDTH, HEIGHT = 460, 200
FONT_SIZE = 12
ROOM = 1.1  # above the highest value of a linear axis
PLAIN = "format(datum.value, ',~g')"
# Okabe and Ito's colours, which the colour-blind tell apart, without those too faint on a page.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
LEGEND_WIDTH, MOST_COLUMNS = 314, 3  # the width beside the y axis on a phone
ENTRY_WIDTH, CHARACTER_WIDTH = 48, 7  # of a legend's entry without its text; in most fonts
DASHES = [[1, 0], [5, 3], [2, 2], [8, 3, 2, 3], [1, 3], [10, 2]]


def draw(chart: SizeChart, measure: Measure = Measure.TIME) -> str:
    """Draw a chart as an SVG that inherits the page's text colour and loads no other files."""
    by_time = measure == Measure.TIME
    values = [
        figure_of(
            target,
            size,
            amount,
            ", ".join(filter(None, (target, *chart.cell(size, point).texts))),
            cold=point.cold_seconds if by_time else None,
        )
        for target, points in chart.targets.items()
        for size, point in sorted(points.items())
        if (amount := point.seconds if by_time else point.usd)
    ]
    log = alt.Scale(type="log", nice=False)
    amounts = [value[name] for value in values for name in ("low", "high", "cold") if value[name]]
    unit = "time" if by_time else f"dollars per {chart.per}"
    top, ticks = log_axis(min(amounts), max(amounts))
    labels = alt.Axis(labelExpr=LABELS[measure], values=ticks or alt.Undefined)
    to_top = alt.Scale(type="log", nice=False, domainMax=top)
    y: dict[str, Any] = {"scale": to_top, "title": unit, "axis": labels}
    # A label for each size measured, as far as there is room.
    sizes = alt.Axis(values=chart.sizes, labelOverlap="greedy", labelSeparation=12)
    x = alt.X("size:Q", scale=log, title=chart.axis, axis=sizes)
    above = rules(chart.crossovers.get(measure, []), log)
    if any(value["cold"] for value in values):
        cold = lines_of(values, x).mark_point(shape="diamond", size=30)
        above.insert(0, cold.encode(y=alt.Y("cold:Q", **y)))
    return curves(values, x, y, above=above)


def figure_of(
    name: str, size: float, figure: Estimate, text: str, **more: float | None
) -> dict[str, Any]:
    """Return a point on a curve as data for Vega-Lite."""
    low, high = ends(figure)
    amounts = {"amount": figure.value, "low": low, "high": high}
    return {"name": name, "size": size, "text": text, **amounts, **more}


def figures_of(
    points: Iterable[tuple[str, int, Estimate]],
    at: Callable[[int], str],
    form: Callable[[Estimate, formatting.Others], object],
) -> list[dict[str, Any]]:
    """Return points as Vega-Lite data, using `at` to format sizes and `form` to format figures."""
    found = list(points)
    rivals = defaultdict[int, list[Estimate]](list)
    for _, size, figure in found:
        rivals[size].append(figure)
    return [
        figure_of(name, size, figure, f"{name}, {at(size)}: {form(figure, rivals[size])}")
        for name, size, figure in found
    ]


def ends(figure: Estimate) -> tuple[float, float]:
    """Return the ends of a figure's interval, or its value twice if it has no interval."""
    interval = figure.interval
    return (interval.low, interval.high) if interval else (figure.value, figure.value)


def lines_of(values: Sequence[Mapping[str, Any]], x: alt.X) -> alt.Chart:
    """Build the base chart that all layers share, with points coloured by name."""
    scale = alt.Scale(domain=names_of(values), range=COLOURS)
    return alt.Chart(alt.InlineData(values=list(values))).encode(
        x=x,
        color=alt.Color("name:N", scale=scale, title=None, legend=legend_of(values)),
        description="text:N",
    )


def legend_of(values: Sequence[Mapping[str, Any]]) -> alt.Legend:
    """Build a legend with as many columns as fit on a phone."""
    longest = max(map(len, names_of(values)), default=0)
    fitting = LEGEND_WIDTH // (ENTRY_WIDTH + CHARACTER_WIDTH * longest)
    return alt.Legend(columns=min(max(fitting, 1), MOST_COLUMNS))


def names_of(values: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(value["name"] for value in values))


def dashes_of(values: Sequence[Mapping[str, Any]]) -> alt.StrokeDash:
    """Assign each name a dash pattern."""
    scale = alt.Scale(domain=names_of(values), range=DASHES)
    return alt.StrokeDash("name:N", scale=scale, title=None, legend=legend_of(values))


def curves(
    values: Sequence[Mapping[str, Any]],
    x: alt.X,
    y: Mapping[str, Any],
    *,
    below: Sequence[Any] = (),
    above: Sequence[Any] = (),
) -> str:
    """Draw a line with its own colour and dash pattern for each name, and intervals as bands."""
    base = lines_of(values, x)
    band = base.mark_area(opacity=0.25).encode(y=alt.Y("low:Q", **y), y2="high:Q")
    line = base.mark_line(point=True).encode(y=alt.Y("amount:Q", **y), strokeDash=dashes_of(values))
    return layered(*below, band, line, *above)


def layered(*layers: Any) -> str:
    return embedded(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT))


def counted(values: Sequence[Mapping[str, Any]], title: str) -> alt.X:
    """Build a linear axis with labels at the measured counts, such as node counts."""
    numbers = sorted({value["size"] for value in values})
    axis = alt.Axis(values=numbers, labelOverlap="greedy", format="d")
    return alt.X("size:Q", scale=alt.Scale(zero=True, nice=False), title=title, axis=axis)


def from_zero(
    values: Sequence[Mapping[str, Any]], title: str, labels: str = PLAIN, room: float = ROOM
) -> dict[str, Any]:
    """Build a linear axis from 0 to just above the highest value."""
    most = max(value["high"] for value in values)
    return {
        "scale": alt.Scale(domain=[0, room * most], nice=False),
        "title": title,
        "axis": alt.Axis(labelExpr=labels, tickCount=5),
    }


def rules(marks: Sequence[Mark], scale: alt.Scale) -> list[Any]:
    """Draw a labelled line at each mark."""
    if not marks:
        return []
    values = [mark._asdict() for mark in marks]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("size:Q", scale=scale), description="text:N"
    )
    rule = base.mark_rule(strokeDash=[2, 2], color="currentColor")
    text = base.mark_text(
        align="left", dx=4, dy=-HEIGHT / 2 + 8, color="currentColor", fontSize=FONT_SIZE
    ).encode(text="text:N", y=alt.value(HEIGHT / 2))
    return [rule, text]


def embedded(chart: Any) -> str:
    """Render a chart as SVG, hidden from screen readers because tables contain the same data."""
    svg = str(vl_convert.vegalite_to_svg(chart.configure(**chart_style()).to_dict()))
    svg = NAMED_MARK.sub(r"<\1\2><title>\3</title></\1>", svg)
    return svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def chart_style(colour: str = "currentColor") -> dict[str, Any]:
    sizes = {"labelFontSize": FONT_SIZE, "titleFontSize": FONT_SIZE}
    text: dict[str, Any] = {"labelColor": colour, "titleColor": colour, **sizes}
    return {
        "background": "transparent",
        "font": "system-ui, sans-serif",
        # Browsers' own fonts are wider than the one that the chart was laid out with.
        "axis": alt.AxisConfig(**text, domainColor=colour, gridOpacity=0.15, titlePadding=14),
        "legend": alt.LegendConfig(
            **text,
            orient="top",
            symbolType="stroke",
            symbolOpacity=1,
            columnPadding=28,
            labelLimit=LEGEND_WIDTH,
        ),
        "view": alt.ViewConfig(stroke="transparent"),
    }
