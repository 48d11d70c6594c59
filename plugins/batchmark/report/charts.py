"""Charts the time and cost of each workload by size, with all targets in one chart.

Vega-Lite renders the charts as SVG: https://vega.github.io/vega-lite/.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import altair as alt
import vl_convert

from batchmark.analysis.pairs.answer import Measure
from batchmark.analysis.pairs.pair import Pair
from batchmark.analysis.samples import RowKey, row_key
from batchmark.analysis.sharing.curves import Place
from batchmark.core import formatting
from batchmark.core.intervals import Estimate
from batchmark.report import words
from batchmark_job.result.values import Parameter

LEAST_SIZES = 2  # a line needs two points
MOST_DECADES = 2.4  # of an axis with labels between the decades
LEAST_TICKS = 2  # a single label doesn't tell a log axis' scale
LEAST_DECADES = 0.8  # of bars in a table, so that small differences look small
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
MOST_CHARTS = 24  # on a page: each takes some 15 kB
WIDTH, HEIGHT = 460, 200
FONT_SIZE = 12
ROOM = 1.1  # above the highest value of a linear axis
PLAIN = "format(datum.value, ',~g')"
# Okabe and Ito's colours, which the colour-blind tell apart, without those too faint on a page.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
DASHES = [[1, 0], [5, 3], [2, 2], [8, 3, 2, 3], [1, 3], [10, 2]]


class Point(NamedTuple):
    """A target's figures at one size."""

    seconds: Estimate
    cold_seconds: float | None = None  # of the first call
    usd: Estimate | None = None


class Mark(NamedTuple):
    """A size to mark on a chart, such as the one above which a target stays ahead."""

    size: float
    text: str


class SizeChart(NamedTuple):
    """A chart of a workload along one axis of its grid; `targets` maps labels to points by size."""

    title: str
    axis: str
    targets: dict[str, dict[float, Point]]
    crossovers: Mapping[Measure, list[Mark]] = MappingProxyType({})
    per: str = words.CALLS

    @property
    def sizes(self) -> list[float]:
        return sorted({size for points in self.targets.values() for size in points})

    @property
    def measures(self) -> list[Measure]:
        """The available measures: time, plus dollars if any target has a price."""
        points = [point for of in self.targets.values() for point in of.values()]
        return list(Measure) if any(point.usd for point in points) else [Measure.TIME]

    @property
    def rows(self) -> Iterator[tuple[str, list[Cell | None]]]:
        """The chart's figures as table rows, one per size."""
        for size in self.sizes:
            points = (of.get(size) for of in self.targets.values())
            yield (
                formatting.size(size),
                [self.cell(size, point) if point else None for point in points],
            )

    def cell(self, size: float, point: Point) -> Cell:
        """Describe a target's point at a size, rounded to match the other targets' points."""
        rivals = [of[size].seconds for of in self.targets.values() if size in of]
        cold = point.cold_seconds
        return Cell(
            formatting.time(point.seconds, rivals),
            f"first call {formatting.seconds(cold)}" if cold is not None else None,
            words.cost_per(point.usd, self.per) if point.usd else None,
        )

    def svg(self, measure: Measure = Measure.TIME) -> str:
        return draw(self, measure)


class Cell(NamedTuple):
    """A point on a chart, in words."""

    time: formatting.Figure
    cold: str | None
    usd: str | None

    @property
    def texts(self) -> tuple[str | None, ...]:
        return str(self.time), self.cold, self.usd


def size_charts(pairs: Sequence[Pair]) -> list[SizeChart]:
    """Chart each workload, dtype and set of other parameters along the axis with the most sizes.

    GPU targets come first. If two suites share a row, the first suite's is shown. Tasks that share
    a device are left out because they have their own curves.
    """
    rows = [(pair, row) for pair in pairs for row in pair.rows if not Place.of(row.parameters)]
    measured = [
        (words.gpu_label(pair), row, Point(row.gpu.median_seconds, row.gpu.cold_seconds, usd))
        for pair, row in rows
        for usd in [None if pair.cpu_fallback else row.gpu_usd_per_million_calls]
    ]
    measured += [
        (
            pair.cpu.target,
            row,
            Point(row.cpu.median_seconds, row.cpu.cold_seconds, row.cpu_usd_per_million_calls),
        )
        for pair, row in rows
    ]
    grids: dict[tuple[str, str], dict[RowKey, dict[str, Point]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for target, row, point in measured:
        grids[row.workload, row.dtype][row_key(row)].setdefault(target, point)
    charts = [
        chart._replace(crossovers=_crossovers(pairs, name, chart))
        for name, grid in grids.items()
        for chart in _along_an_axis(", ".join(name), grid)
    ]
    return charts[:MOST_CHARTS]


def _crossovers(
    pairs: Sequence[Pair], name: tuple[str, str], chart: SizeChart
) -> dict[Measure, list[Mark]]:
    """Mark where GPU targets break even with the CPU target, if there is only one CPU target."""
    found: dict[Measure, list[Mark]] = {measure: [] for measure in Measure}
    if len({pair.cpu.target for pair in pairs}) > 1:
        return found
    for pair in pairs:
        for one in pair.crossovers:
            of_chart = (one.workload, one.dtype) == name and one.axis == chart.axis
            if not of_chart or formatting.parameters(one.parameters) not in chart.title:
                continue
            for measure, crossing in zip(found, (one.warm_seconds, one.warm_usd), strict=True):
                if crossing and crossing.outcome == "crossover" and crossing.size is not None:
                    ahead = pair.gpu if crossing.ahead_above == "gpu" else pair.cpu
                    text = f"{ahead.target} from about {formatting.two_digits(crossing.size)}"
                    found[measure].append(Mark(crossing.size, text))
    return found


def _along_an_axis(name: str, grid: dict[RowKey, dict[str, Point]]) -> Iterator[SizeChart]:
    sizes: dict[str, set[float]] = defaultdict(set)
    for _, parameters, _ in grid:
        for parameter, value in parameters:
            if (size := _size(value)) is not None:
                sizes[parameter].add(size)
    axis = max(sizes, key=lambda one: len(sizes[one]), default=None)
    groups: dict[str, dict[str, dict[float, Point]]] = defaultdict(lambda: defaultdict(dict))
    for (_, parameters, _), points in grid.items():
        others = dict(parameters)
        size = _size(others.pop(axis, None)) if axis else None
        if size is None:
            continue
        for target, point in points.items():
            groups[formatting.parameters(others)][target][size] = point
    for others_text, targets in groups.items():
        title = ", ".join(filter(None, (name, others_text)))
        chart = SizeChart(title, str(axis), dict(targets))
        if len(chart.sizes) >= LEAST_SIZES:
            yield chart


def _size(value: Parameter | None) -> float | None:
    """Return a parameter's value if a logarithmic axis can show it, else None."""
    return float(value) if isinstance(value, int | float) and value > 0 else None


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
    labels = alt.Axis(labelExpr=LABELS[measure], values=ticks)
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
        x=x, color=alt.Color("name:N", scale=scale, title=None), description="text:N"
    )


def names_of(values: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(value["name"] for value in values))


def dashes_of(values: Sequence[Mapping[str, Any]]) -> alt.StrokeDash:
    """Assign each name a dash pattern."""
    scale = alt.Scale(domain=names_of(values), range=DASHES)
    return alt.StrokeDash("name:N", scale=scale, title=None)


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


def log_axis(low: float, high: float) -> tuple[float, Any]:
    """Return where a log axis ends, which is labelled and not below `high`, and its labels."""
    decade = math.floor(math.log10(high))
    top = min(one for step in (1, 2, 5, 10) if (one := float(f"{step}e{decade}")) >= high)
    ticks = log_ticks(low, top)
    return top, ticks if ticks is alt.Undefined or top in ticks else [*ticks, top]


def log_ticks(low: float, high: float) -> Any:
    """Choose labels for a log axis: decades, finer steps for a short range, or Vega's defaults."""
    first, last = math.log10(low), math.log10(high)
    decades = range(math.floor(first), math.ceil(last) + 1)
    for steps in [(1,)] * (last - first > MOST_DECADES) + [(1, 2, 5), range(1, 10)]:
        ticks = [float(f"{step}e{decade}") for decade in decades for step in steps]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= LEAST_TICKS:
            return inside
    return alt.Undefined


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
            columns=3,
            columnPadding=28,
        ),
        "view": alt.ViewConfig(stroke="transparent"),
    }


class Scale:
    """Maps factors to positions on a log axis, as percentages of its width, for bars in a table."""

    def __init__(self, estimates: Iterable[Estimate]) -> None:
        values = [1.0]
        for estimate in estimates:
            values.append(estimate.value)
            if estimate.interval:
                values += [max(estimate.interval.low, estimate.value / 1e3), estimate.interval.high]
        low, high = math.log10(min(values)), math.log10(max(values))
        missing = max(0.0, LEAST_DECADES - (high - low)) / 2
        margin = 0.04 * (high - low) + missing
        self._low, self._high = low - margin, high + margin

    def percent(self, value: float) -> float:
        share = (math.log10(max(value, 1e-12)) - self._low) / (self._high - self._low)
        return round(100 * min(1.0, max(0.0, share)), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Each tick's position as a percentage, and its label."""
        values = log_ticks(10**self._low, 10**self._high)
        inside = [value for value in values if 4 < self.percent(value) < 96]
        return [(self.percent(value), f"{value:g}{formatting.TIMES}") for value in inside]
