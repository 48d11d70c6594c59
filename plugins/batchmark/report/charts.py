"""Time over size, one chart for each workload: every target's median and its interval.

Vega-Lite draws them as SVG: https://vega.github.io/vega-lite/.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import altair as alt
import vl_convert

from batchmark.analysis.comparison import Pair
from batchmark.analysis.samples import RowKey, row_key
from batchmark.core import formatting
from batchmark.core.intervals import Estimate
from batchmark.report import words
from batchmark_job.result import Parameter

LEAST_SIZES = 2
MOST_CHARTS = 24  # of a page: each has some 15 kB
WIDTH, HEIGHT = 460, 200
# Okabe and Ito's colours, which the colour-blind tell apart, without those too faint on a page.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
DASHES = [[1, 0], [5, 3], [2, 2], [8, 3, 2, 3], [1, 3], [10, 2]]


class SizeChart(NamedTuple):
    """A workload along one axis of its grid; `targets` has medians in seconds by label and size."""

    title: str
    axis: str
    targets: dict[str, dict[float, Estimate]]

    @property
    def sizes(self) -> list[float]:
        return sorted({size for points in self.targets.values() for size in points})

    @property
    def rows(self) -> Iterator[tuple[str, list[formatting.Figure | None]]]:
        """The table behind the chart."""
        for size in self.sizes:
            found = (points.get(size) for points in self.targets.values())
            figures = [formatting.time(one) if one else None for one in found]
            yield formatting.size(size), figures

    def svg(self) -> str:
        return draw(self)


def size_charts(pairs: Sequence[Pair]) -> list[SizeChart]:
    """A chart for each workload and dtype, along the axis on which it has the most sizes.

    GPU targets come first. Where two suites share a row, the first one's is shown.
    """
    measured = [(words.gpu_label(pair), row, row.gpu) for pair in pairs for row in pair.rows]
    measured += [(pair.cpu.target, row, row.cpu) for pair in pairs for row in pair.rows]
    grids: dict[str, dict[RowKey, dict[str, Estimate]]] = defaultdict(lambda: defaultdict(dict))
    for target, row, side in measured:
        of_row = grids[f"{row.workload}, {row.dtype}"][row_key(row)]
        of_row.setdefault(target, side.median_seconds)
    charts = [chart for name, grid in grids.items() for chart in _along_an_axis(name, grid)]
    return charts[:MOST_CHARTS]


def _along_an_axis(name: str, grid: dict[RowKey, dict[str, Estimate]]) -> Iterator[SizeChart]:
    sizes: dict[str, set[float]] = defaultdict(set)
    for _, parameters, _ in grid:
        for parameter, value in parameters:
            if (size := _size(value)) is not None:
                sizes[parameter].add(size)
    axis = max(sizes, key=lambda one: len(sizes[one]), default=None)
    groups: dict[str, dict[str, dict[float, Estimate]]] = defaultdict(lambda: defaultdict(dict))
    for (_, parameters, _), medians in grid.items():
        others = dict(parameters)
        size = _size(others.pop(axis, None)) if axis else None
        if size is None:
            continue
        for target, median in medians.items():
            groups[formatting.parameters(others)][target][size] = median
    for others_text, targets in groups.items():
        title = ", ".join(filter(None, (name, others_text)))
        chart = SizeChart(title, str(axis), dict(targets))
        if len(chart.sizes) >= LEAST_SIZES:
            yield chart


def _size(value: Parameter | None) -> float | None:
    """A parameter's value where a logarithmic axis can show it."""
    return float(value) if isinstance(value, int | float) and value > 0 else None


def draw(chart: SizeChart) -> str:
    """An SVG for the page itself, which takes on its text colour and loads nothing."""
    values = [
        {
            "target": target,
            "size": size,
            "seconds": median.value,
            "low": median.interval.low if median.interval else median.value,
            "high": median.interval.high if median.interval else median.value,
        }
        for target, points in chart.targets.items()
        for size, median in sorted(points.items())
    ]
    log = alt.Scale(type="log", nice=False)
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("size:Q", scale=log, title=chart.axis, axis=alt.Axis(values=chart.sizes)),
    )
    names = list(chart.targets)
    scale: dict[str, Any] = {"domain": names}
    colours, dashes = (alt.Scale(**scale, range=one) for one in (COLOURS, DASHES))
    y: dict[str, Any] = {"scale": log, "title": "seconds", "axis": alt.Axis(format="~s")}
    band = base.mark_area(opacity=0.25).encode(
        y=alt.Y("low:Q", **y),
        y2="high:Q",
        color=alt.Color("target:N", scale=colours, title=None),
    )
    line = base.mark_line(point=True).encode(
        y=alt.Y("seconds:Q", **y),
        color=alt.Color("target:N", scale=colours, title=None),
        strokeDash=alt.StrokeDash("target:N", scale=dashes, title=None),
    )
    return embedded((band + line).properties(width=WIDTH, height=HEIGHT))


def embedded(chart: Any) -> str:
    """A chart as SVG that takes on the page's text colour; hidden where a table says the same."""
    svg = vl_convert.vegalite_to_svg(chart.configure(**chart_style()).to_dict())
    return str(svg).replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def chart_style(colour: str = "currentColor") -> dict[str, Any]:
    text: dict[str, Any] = {"labelColor": colour, "titleColor": colour}
    return {
        "background": "transparent",
        "font": "system-ui, sans-serif",
        "axis": alt.AxisConfig(**text, domainColor=colour, gridOpacity=0.15),
        "legend": alt.LegendConfig(
            **text, orient="top", symbolType="stroke", symbolOpacity=1, columns=3
        ),
        "view": alt.ViewConfig(stroke="transparent"),
    }
