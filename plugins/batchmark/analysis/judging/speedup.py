"""A speedup with its interval: the ratio of two medians."""

from __future__ import annotations

import math

from batchmark.core.intervals import Estimate, Interval, Median, interval_of


def ratio(numerator: Median, denominator: Median, job_noise: float = 0.0) -> Estimate:
    """The ratio of two independently measured medians.

    A speedup is the CPU target's median over the GPU target's. Its interval comes from the
    quotients of both medians' bootstrap draws, which know nothing of jobs that were not run. So it
    is at least as wide as noise from job to job makes it.

    Args:
        job_noise: how far such noise alone may move the log of the ratio.
    """
    value = numerator.value / denominator.value
    if reason := numerator.interval_reason or denominator.interval_reason:
        return Estimate(value=value, interval=None, interval_reason=reason)
    drawn = interval_of(numerator.draws() / denominator.draws())
    factor = math.exp(job_noise)
    interval = Interval(low=min(drawn.low, value / factor), high=max(drawn.high, value * factor))
    return Estimate(value=value, interval=interval)
