"""A changed figure over its runs, drawn small beside its row."""

from __future__ import annotations

import numpy as np

from batchmark.changes.records import ChangePoint
from batchmark.core import formatting
from batchmark.report.changes import words
from batchmark.report.changes.records import SeriesTrace

MARGIN = 0.08  # of a chart's width and height
LEAST_RANGE = 0.02  # of a chart's values, as a share of the level: less would make noise look large


class HistoryChart:
    """Where a trace's runs and its two levels lie, in percent of the chart's width and height.

    Values far from both levels are drawn at the edge, so that a wild run does not flatten the rest.
    """

    def __init__(self, trace: SeriesTrace, point: ChangePoint) -> None:
        metric, series = point.metric, point.series
        values = np.array([words.read(value, metric, series) for value in trace.values])
        levels = [words.read(level.median, metric, series) for level in (point.before, point.after)]
        low, high = np.quantile(values, (0.05, 0.95))
        low, high = min(low, *levels), max(high, *levels)
        missing = max(0.0, LEAST_RANGE * max(levels) - (high - low)) / 2
        self._low, self._high = low - missing, high + missing
        self._last = max(1, values.size - 1)
        self.low, self.high = (
            words.value_text(max(0.0, end), metric, series) for end in (self._low, self._high)
        )
        self.dots = [
            (self._x(place), self._y(value), place >= trace.first)
            for place, value in enumerate(values)
        ]
        start = max(0, trace.first - point.before.runs)
        end = min(values.size, trace.first + point.after.runs) - 1
        self.before = (self._x(start), self._x(max(start, trace.first - 1)), self._y(levels[0]))
        self.after = (self._x(trace.first), self._x(end), self._y(levels[1]))
        self.span = f"{formatting.count(values.size, 'run')} since {trace.recorded_at[0]:%Y-%m-%d}"

    def _x(self, place: int) -> float:
        return _percent(place / self._last)

    def _y(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return _percent(1 - min(1.0, max(0.0, share)))


def _percent(share: float) -> float:
    return round(100 * (MARGIN + (1 - 2 * MARGIN) * float(share)), 2)
