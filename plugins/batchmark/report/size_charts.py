"""What charts of each workload show: its time and cost by size, for all targets in one chart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from batchmark.analysis.pairs.answer import Measure
from batchmark.analysis.pairs.pair import Pair
from batchmark.analysis.samples import RowKey, row_key
from batchmark.analysis.sharing.curves import Place
from batchmark.core import formatting
from batchmark.core.intervals import Estimate
from batchmark.report import words
from batchmark_job.result.values import Parameter

LEAST_SIZES = 2  # a line needs two points
MOST_CHARTS = 24  # on a page: each takes some 15 kB


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
