"""Log axes: their labels, and positions on them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from batchmark.core import formatting
from batchmark.core.intervals import Estimate

MOST_DECADES = 2.4  # of an axis with labels between the decades
LEAST_TICKS = 2  # a single label doesn't tell a log axis' scale
LEAST_DECADES = 0.8  # of bars in a table, so that small differences look small


def log_axis(low: float, high: float) -> tuple[float, list[float] | None]:
    """Return where a log axis ends, which is labelled and not below `high`, and its labels."""
    decade = math.floor(math.log10(high))
    top = min(one for step in (1, 2, 3, 5, 7, 10) if (one := float(f"{step}e{decade}")) >= high)
    ticks = log_ticks(low, top)
    return top, ticks if ticks is None or top in ticks else [*ticks, top]


def log_ticks(low: float, high: float) -> list[float] | None:
    """Choose labels for a log axis: decades, finer steps for a short range, or None if none fit."""
    first, last = math.log10(low), math.log10(high)
    decades = range(math.floor(first), math.ceil(last) + 1)
    for steps in [(1,)] * (last - first > MOST_DECADES) + [(1, 2, 5), range(1, 10)]:
        ticks = [float(f"{step}e{decade}") for decade in decades for step in steps]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= LEAST_TICKS:
            return inside
    return None


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
        inside = [value for value in values or () if 4 < self.percent(value) < 96]
        return [(self.percent(value), f"{value:g}{formatting.TIMES}") for value in inside]
