"""A logarithmic axis of factors, for bars in a table."""

from __future__ import annotations

import math
from collections.abc import Iterable

from batchmark.core import formatting
from batchmark.core.intervals import Estimate
from batchmark.report.charts import log_ticks

LEAST_DECADES = 0.8  # so that small differences look small


class Scale:
    """Where a factor lies on it, in percent of its width."""

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
        """Positions and labels."""
        values = log_ticks(10**self._low, 10**self._high)
        inside = [value for value in values if 4 < self.percent(value) < 96]
        return [(self.percent(value), f"{value:g}{formatting.TIMES}") for value in inside]
