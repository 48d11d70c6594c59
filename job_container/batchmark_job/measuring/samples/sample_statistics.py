"""Statistics of one row's samples: the median's interval, outliers, modes and drift.

All are cheap compared with taking the samples, and none assumes a normal distribution.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from math import ceil, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from batchmark_job.formatting import duration
from batchmark_job.result.confidence import CONFIDENCE
from batchmark_job.result.document import Criterion, Stopping

NORMAL_QUANTILE = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)

OUTLIER_DEVIATIONS = 5.0  # times the median absolute deviation, scaled to a normal's sigma
OUTLIER_FLOOR = 0.05  # of the median: no outlier is closer than that, however tight the others are

MODE_SAMPLES = 20  # fewer samples can't show two modes
MODE_SHARE = 0.1  # least share of the samples in each mode
MODE_DISTANCE = 0.05  # least distance of the upper mode, relative to the lower one
MODE_SIGNIFICANCE = 1e-3  # judgment: about the share of rows with one mode that chance flags

UNSETTLED_FACTOR = 2.0  # ratio of the ends of the median's interval

DRIFT = 0.1  # of the earlier median
DRIFT_SAMPLES = 10  # two parts of 5; by chance all of one exceed the other in 1 of 126 cases


class MedianInterval(NamedTuple):
    """A median and its confidence interval at level CONFIDENCE, in the samples' unit."""

    median: float
    low: float
    high: float

    @property
    def relative_half_width(self) -> float:
        return (self.high - self.low) / 2 / self.median


def median_interval(samples: Sequence[float]) -> MedianInterval | None:
    """Return the median and its confidence interval, whatever the samples' distribution.

    The interval's ends are order statistics. The number of samples below the true median is
    binomially distributed, which gives the ends' ranks; the normal approximation with continuity
    correction is never narrower than the exact ranks. The result is None for fewer than 6 samples,
    as even the range from smallest to largest would not reach CONFIDENCE.
    """
    count = len(samples)
    rank = ceil((count - 1 - NORMAL_QUANTILE * sqrt(count)) / 2) - 1
    if rank < 0:
        return None
    ordered = sorted(samples)
    median = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    return MedianInterval(median, ordered[rank], ordered[count - 1 - rank])


def stopping(criterion: Criterion, samples: Sequence[float]) -> Stopping:
    interval = median_interval(samples)
    return Stopping(
        criterion=criterion, relative_half_width=interval and interval.relative_half_width
    )


def outliers(samples: Sequence[float]) -> tuple[int, ...]:
    """Return the indexes of samples that are far from the median in either direction."""
    values = np.asarray(samples)
    median = np.median(values)
    distances = np.abs(values - median)
    deviation = 1.4826 * np.median(distances)
    far = distances > max(OUTLIER_DEVIATIONS * deviation, OUTLIER_FLOOR * median)
    return tuple(int(index) for index in np.flatnonzero(far))


def multimodal(samples: Sequence[float], resolution: float = 0.0) -> bool | None:
    """Return whether a valley separates two modes in the samples, or None if there are too few.

    `resolution` is the timer's, in the samples' unit; there are always valleys between its ticks.

    The samples are split into two parts, minimising the distances to each part's median. With a
    single mode, however skewed, samples are at least as dense halfway between the two medians as
    around the sparser median. Of the samples in two equally wide windows at these places, at least
    half should therefore lie in the one halfway; far fewer indicate a valley.
    """
    if len(samples) < MODE_SAMPLES:
        return None
    ordered = np.sort(np.log(samples))
    split = _best_split(ordered)
    low, high = float(np.median(ordered[:split])), float(np.median(ordered[split:]))
    window = (high - low) / 3
    if high - low < np.log1p(MODE_DISTANCE) or window * np.exp(low) < resolution:
        return False
    above = np.mean(ordered > (low + high) / 2)
    if not MODE_SHARE <= above <= 1 - MODE_SHARE:
        return False
    in_valley, around_low, around_high = (
        int(np.count_nonzero(np.abs(ordered - centre) <= window / 2))
        for centre in ((low + high) / 2, low, high)
    )
    sparser = min(around_low, around_high)
    return bool(bdtr(in_valley, in_valley + sparser, 0.5) < MODE_SIGNIFICANCE)


def _best_split(ordered: NDArray[np.float64]) -> int:
    """Return the split that minimises the sum of distances to each part's median."""
    count = len(ordered)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    least = max(2, ceil(MODE_SHARE * count))
    splits = np.arange(least, count - least + 1)

    def spread(start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.float64]:
        half = (stop - start) // 2
        lower = sums[start + half] - sums[start]
        upper = sums[stop] - sums[stop - half]
        return np.asarray(upper - lower)

    ends = np.full_like(splits, count)
    cost = spread(np.zeros_like(splits), splits) + spread(splits, ends)
    return int(splits[np.argmin(cost)])


def drift(samples: Sequence[float]) -> str | None:
    """Return how the last third of the samples differs from the first, or None if it doesn't.

    They differ if their medians differ by more than DRIFT and their intervals don't overlap. For a
    part with too few samples for an interval, its range is used. With fewer than 18 samples,
    halves are compared instead; fewer than DRIFT_SAMPLES are not compared.
    """
    count = len(samples)
    if count < DRIFT_SAMPLES:
        return None
    part = count // 3 if count >= 18 else count // 2
    first, last = _interval_or_range(samples[:part]), _interval_or_range(samples[-part:])
    apart = first.high < last.low or last.high < first.low
    change = last.median / first.median - 1
    if not apart or abs(change) <= DRIFT:
        return None
    return (
        f"the median of the last {part} samples differs by {change:+.0%} from that of the first "
        f"{part}"
    )


def spread_too_far(samples: Sequence[float]) -> str | None:
    """Return why the median is too uncertain, or None if it isn't or if this is unknown."""
    interval = median_interval(samples)
    if interval is None or interval.high <= UNSETTLED_FACTOR * interval.low:
        return None
    return (
        f"after {len(samples)} samples, the median could be anywhere from {duration(interval.low)} "
        f"to {duration(interval.high)}"
    )


def _interval_or_range(samples: Sequence[float]) -> MedianInterval:
    return median_interval(samples) or MedianInterval(
        statistics.median(samples), min(samples), max(samples)
    )
