"""A speedup with its interval: the ratio of two medians."""

from __future__ import annotations

from batchmark.core.intervals import Estimate, Median, interval_of


def ratio(numerator: Median, denominator: Median) -> Estimate:
    """The ratio of two independently measured medians.

    A speedup is the CPU target's median over the GPU target's. Its interval comes from the
    quotients of both medians' bootstrap draws.
    """
    value = numerator.value / denominator.value
    if reason := numerator.interval_reason or denominator.interval_reason:
        return Estimate(value=value, interval=None, interval_reason=reason)
    return Estimate(value=value, interval=interval_of(numerator.draws() / denominator.draws()))
