"""Figures as text, with no more digits than their interval supports."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from batchmark.estimate import Estimate
    from batchmark_job.result import Parameter

MOST_DIGITS = 4
DIGITS_WITHOUT_INTERVAL = 2
TIMES = "\N{MULTIPLICATION SIGN}"
TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


class Figure(NamedTuple):
    """A value and its interval, the latter empty where there is none."""

    value: str
    interval: str

    def __str__(self) -> str:
        return f"{self.value} {self.interval}".rstrip()


def time(estimate: Estimate, digits_without_interval: int = 3) -> Figure:
    """A duration given in seconds, in the unit that suits it."""
    scale, unit = _time_unit(estimate.value)
    figure = _figure(estimate.scaled(1 / scale), digits_without_interval)
    return Figure(f"{figure.value} {unit}", figure.interval)


def factor(estimate: Estimate) -> Figure:
    """A ratio such as a speedup."""
    figure = _figure(estimate, DIGITS_WITHOUT_INTERVAL)
    return Figure(f"{figure.value}{TIMES}", figure.interval)


def number(estimate: Estimate) -> Figure:
    """A figure without a unit."""
    return _figure(estimate, DIGITS_WITHOUT_INTERVAL)


def seconds(value: float) -> str:
    """A single duration, without an interval."""
    scale, unit = _time_unit(value)
    return f"{_rounded(value / scale, _last_digit(value / scale, 3))} {unit}"


def usd(value: float) -> str:
    """An amount; small ones keep two significant digits."""
    return f"${value:,.2f}" if value >= 1 else f"${_rounded(value, _last_digit(value, 2))}"


def parameters(values: Mapping[str, Parameter]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _time_unit(value: float) -> tuple[float, str]:
    """The largest unit that suits the value, also once it is rounded: 0.98 ms, not 980 µs."""
    return next((unit for unit in TIME_UNITS if value >= 0.95 * unit[0]), TIME_UNITS[-1])


def _figure(estimate: Estimate, digits_without_interval: int) -> Figure:
    interval = estimate.interval
    if interval is None:
        last = _last_digit(estimate.value, digits_without_interval)
        return Figure(_rounded(estimate.value, last), "")
    last = _last_digit(estimate.value, MOST_DIGITS)
    half_width = (interval.high - interval.low) / 2
    if half_width > 0:
        last = max(last, _last_digit(half_width, 1))
    if interval.low > 0:  # never round the lower end to nothing
        last = min(last, _last_digit(interval.low, 1))
    low, high = _rounded(interval.low, last), _rounded(interval.high, last)
    return Figure(_rounded(estimate.value, last), f"[{low}, {high}]")


def _last_digit(value: float, digits: int) -> int:
    """The power of ten of the last of so many significant digits."""
    return 1 - digits if value == 0 else math.floor(math.log10(abs(value))) - digits + 1


def _rounded(value: float, last_digit: int) -> str:
    return f"{round(value, -last_digit):.{max(0, -last_digit)}f}"
