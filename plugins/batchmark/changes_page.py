"""The report's section on changes: its charts, and what its template is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batchmark import change_words

if TYPE_CHECKING:
    from batchmark.change_records import Change, ChangePoint
    from batchmark.changes_section import ChangesSection, SeriesTrace

SHOWN_ROWS = 6  # of a change; the others are folded
MARGIN = 0.08  # of a chart's width and height
LEAST_RANGE = 0.02  # of a level, so that noise does not fill a chart


class RowView(NamedTuple):
    target: str
    name: str
    point: ChangePoint
    chart: HistoryChart | None


class ChangeView(NamedTuple):
    change: Change
    title: str
    shown: list[RowView]
    folded: list[RowView]


class HistoryChart:
    """Where a trace's runs and its two levels lie, in percent of the chart's width and height.

    What lies far from both levels is drawn at the edge, so that one wild run hides nothing.
    """

    def __init__(self, trace: SeriesTrace, point: ChangePoint) -> None:
        values = np.array(trace.values)
        levels = (point.before.median, point.after.median)
        low, high = np.quantile(values, (0.05, 0.95))
        low, high = min(low, *levels), max(high, *levels)
        missing = max(0.0, LEAST_RANGE * max(levels) - (high - low)) / 2
        self._low, self._high = low - missing, high + missing
        self._last = max(1, values.size - 1)
        self.low, self.high = (
            change_words.value(max(0.0, end), point.metric) for end in (self._low, self._high)
        )
        self.dots = [
            (self._x(place), self._y(one), place >= trace.first) for place, one in enumerate(values)
        ]
        start = max(0, trace.first - point.before.runs)
        end = min(values.size, trace.first + point.after.runs) - 1
        self.before = (self._x(start), self._x(max(start, trace.first - 1)), self._y(levels[0]))
        self.after = (self._x(trace.first), self._x(end), self._y(levels[1]))
        self.span = f"{values.size} runs since {trace.recorded_at[0]:%Y-%m-%d}"

    def _x(self, place: int) -> float:
        return _percent(place / self._last)

    def _y(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return _percent(1 - min(1.0, max(0.0, share)))


def change_views(found: ChangesSection | None) -> list[ChangeView]:
    if found is None:
        return []
    views = []
    for change in found.changes:
        rows = [
            RowView(
                change_words.target(point.series.target, change.fell_back),
                change_words.row(point.series),
                point,
                HistoryChart(trace, point) if (trace := found.trace(point)) else None,
            )
            for point in change.points
        ]
        views.append(
            ChangeView(change, change_words.title(change), rows[:SHOWN_ROWS], rows[SHOWN_ROWS:])
        )
    return views


def _percent(share: float) -> float:
    return round(100 * (MARGIN + (1 - 2 * MARGIN) * float(share)), 2)
