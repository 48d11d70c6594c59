"""Finds the number of replicas beyond which adding more gains too little throughput."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from batchmark.core.intervals import ENDS, Median, no_interval
from batchmark.core.record import Record
from batchmark_job.result.confidence import CONFIDENCE_TEXT

# The package kneed finds the sharpest bend of one smooth line; users can check a share of the best,
# and resampled curves show whether noise decides it.
WORTH = 0.95  # of the best throughput: what more replicas add beyond that is not worth it


class Knee(Record):
    """The smallest number of replicas that reaches a share WORTH of the curve's best throughput."""

    outcome: Literal["found", "still_rising", "not_known"] = Field(
        description="still_rising: only the largest measured replica count reaches WORTH, "
        "so more replicas may increase throughput further"
    )
    replicas: int | None = Field(
        description="found: the knee; still_rising: a lower bound; not_known: an estimate from the "
        "medians; null if fewer than two replica counts were measured"
    )
    low: int | None = Field(
        default=None, description=f"lower end of the knee's {CONFIDENCE_TEXT} interval"
    )
    high: int | None = Field(
        default=None,
        description="upper end of the interval; if it is the largest replica count measured, "
        "the knee may be higher still",
    )
    reason: str | None = Field(default=None, description="why the knee is not known")


def find_knee(seconds: Mapping[int, Median]) -> Knee:
    """Find a curve's knee from the seconds per step of all replicas together, by replica count.

    The knee is known if nearly all curves resampled from the samples have it at the same replica
    count. Each curve is compared with its own best throughput, which varies with noise too.
    """
    numbers = sorted(seconds)
    if len(numbers) < 2:
        return Knee(
            outcome="not_known",
            replicas=None,
            reason="at least two replica counts must be measured",
        )
    medians = [seconds[number] for number in numbers]
    guess = int(_knees(numbers, 1 / np.array([[median.value] for median in medians]))[0])
    if reason := no_interval(*medians):
        return Knee(outcome="not_known", replicas=guess, reason=reason)
    drawn = _knees(numbers, 1 / np.array([median.draws() for median in medians]))
    low, high = map(int, np.quantile(drawn, ENDS, method="inverted_cdf"))
    if low < high:
        more = " or more" if high == numbers[-1] else ""
        return Knee(
            outcome="not_known",
            replicas=guess,
            low=low,
            high=high,
            reason=f"the samples' spread allows anything from {low} to {high}{more}",
        )
    outcome = "still_rising" if low == numbers[-1] else "found"
    return Knee(outcome=outcome, replicas=low, low=low, high=high)


def _knees(numbers: list[int], throughput: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the knee of each curve; `throughput` has shape (numbers, curves)."""
    enough = throughput >= WORTH * throughput.max(axis=0)
    return np.asarray(np.array(numbers)[enough.argmax(axis=0)])
