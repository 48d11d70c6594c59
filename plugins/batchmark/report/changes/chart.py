"""A changed figure over its runs, drawn small beside its row."""

from __future__ import annotations

import numpy as np

from batchmark.changes.records import ChangePoint
from batchmark.core import formatting
from batchmark.report.blocks import HistoryChart
from batchmark.report.change_records import SeriesTrace
from batchmark.report.changes import words

MARGIN = 0.08  # of a chart's width and height
LEAST_RANGE = 0.02  # of a chart's values, as a share of the level: less would make noise look large


def history_chart(trace: SeriesTrace, point: ChangePoint) -> HistoryChart:
    """Values far from both levels are drawn at the edge: a wild run does not flatten the rest."""
    metric, series = point.metric, point.series
    values = np.array([words.read(value, metric, series) for value in trace.values])
    levels = [words.read(level.median, metric, series) for level in (point.before, point.after)]
    low, high = np.quantile(values, (0.05, 0.95))
    low, high = min(low, *levels), max(high, *levels)
    missing = max(0.0, LEAST_RANGE * max(levels) - (high - low)) / 2
    low, high = low - missing, high + missing
    last = max(1, values.size - 1)

    def x(place: int) -> float:
        return _percent(place / last)

    def y(value: float) -> float:
        return _percent(1 - min(1.0, max(0.0, (value - low) / (high - low))))

    start = max(0, trace.first - point.before.runs)
    end = min(values.size, trace.first + point.after.runs) - 1
    return HistoryChart(
        low=words.value_text(max(0.0, low), metric, series),
        high=words.value_text(max(0.0, high), metric, series),
        dots=[(x(place), y(value), place >= trace.first) for place, value in enumerate(values)],
        before=(x(start), x(max(start, trace.first - 1)), y(levels[0])),
        after=(x(trace.first), x(end), y(levels[1])),
        span=f"{formatting.count(values.size, 'run')} since {trace.recorded_at[0]:%Y-%m-%d}",
    )


def _percent(share: float) -> float:
    return round(100 * (MARGIN + (1 - 2 * MARGIN) * float(share)), 2)
