"""Tests whether jobs of two targets differ by more than jobs of the same target do.

Each job contributes the log of its median. The logs of identical jobs scatter with a standard
deviation s, so a difference of means over m and n jobs has the standard error sqrt(s1²/m + s2²/n)
and is tested with Student's t (Welch, Biometrika 34 (1947) 28; Satterthwaite, Biometrics Bulletin 2
(1946) 110).

Quantiles come from `scipy.special`, as those of `scipy.stats` do, which takes longer to load and to
answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from batchmark.core.intervals import MINIMUM_SAMPLES
from batchmark_job.result.confidence import CONFIDENCE

Values = float | NDArray[np.float64]
NoiseSource = Literal["calibration", "repeats", "assumed"]

# Two-sided. A/A comparisons may call 1 in 100 different; half of that is kept as a margin.
LEVEL = 0.005
INTERVAL_LEVEL = 1 - CONFIDENCE
POWER = 0.95
# A decided row also needs its interval to exclude 1, so the t-test may miss only half as often.
T_TEST_POWER = 1 - (1 - POWER) / 2
ENOUGH_REPEATS = 3  # from this many jobs on, their own scatter is used
# For jobs of unknown noise: with one job a side, only a factor of 2.7 or more counts.
ASSUMED_LOG_SD = 0.25
# A handful of equal medians does not prove a smaller scatter.
LEAST_LOG_SD = 0.001
# However many jobs a calibration had, a single job may stall. So its noise counts as known with
# this many degrees of freedom, and for a mean of m jobs with m times as many. Chosen by simulation:
# with skewed and heavy-tailed noise, false calls stay below 2 x LEVEL from 1 job a side on.
DEGREES_PER_JOB = 2
QUANTILES = 50  # of a scatter's distribution, over which the power is averaged


@dataclass(frozen=True)
class JobNoise:
    """The standard deviation of a target's log medians, its degrees of freedom and its source."""

    log_sd: float
    degrees: float
    source: NoiseSource

    def credited_degrees(self, jobs: int) -> float:
        """Return the degrees of freedom to use when comparing means over this many jobs."""
        if self.source == "calibration":
            return min(self.degrees, DEGREES_PER_JOB * jobs)
        return self.degrees


ASSUMED = JobNoise(ASSUMED_LOG_SD, math.inf, "assumed")


@dataclass(frozen=True)
class Resolution:
    """The smallest differences that a comparison of two targets can resolve with their jobs."""

    first: JobNoise
    first_jobs: int
    second: JobNoise
    second_jobs: int

    @property
    def critical_difference(self) -> float:
        """The difference in mean log medians that noise alone exceeds with probability LEVEL."""
        return float(_critical(*self._variances, *self._credited))

    @property
    def margin(self) -> float:
        """The half-width of the CONFIDENCE interval for a difference in mean log medians."""
        return float(_critical(*self._variances, *self._credited, level=INTERVAL_LEVEL))

    @property
    def smallest_detectable_change(self) -> float:
        """The smallest relative slowdown that is detected with probability POWER.

        Uses the assumed noise instead of the measured noise where that gives a smaller value.
        """
        without = replace(self, first=_assumable(self.first), second=_assumable(self.second))
        return relative(min(self._detectable_difference, without._detectable_difference))

    @property
    def _detectable_difference(self) -> float:
        """The smallest detectable difference in mean log medians, given each side's noise."""
        first, second = self._variances
        share = round(first / (first + second), 2)
        degrees = self.first.degrees, self.second.degrees
        return math.sqrt(first + second) * _detectable(share, *degrees, *self._credited)

    @property
    def _variances(self) -> tuple[float, float]:
        """The variances of the two sides' means."""
        return self.first.log_sd**2 / self.first_jobs, self.second.log_sd**2 / self.second_jobs

    @property
    def _credited(self) -> tuple[float, float]:
        return (
            self.first.credited_degrees(self.first_jobs),
            self.second.credited_degrees(self.second_jobs),
        )


def known_or_assumed(known: JobNoise, jobs: int) -> JobNoise:
    """Return the measured noise, or the assumed noise if that resolves smaller differences.

    The assumed noise can win if there are few jobs: three repeats must not decide fewer rows
    than one would. With either noise alone, a fraction LEVEL of comparisons give a wrong call, so
    using the better one at most doubles that. Measured noise above the assumed noise is never
    ignored.
    """
    return min(
        (known, _assumable(known)),
        key=lambda noise: Resolution(noise, jobs, noise, jobs).critical_difference,
    )


def _assumable(noise: JobNoise) -> JobNoise:
    """Return the assumed noise, or the measured noise if that is larger."""
    return ASSUMED if noise.log_sd <= ASSUMED.log_sd else noise


def log_spread(medians: Sequence[float]) -> float:
    """Return the standard deviation of the logs of two or more medians (in any unit)."""
    return max(float(np.std(np.log(medians), ddof=1)), LEAST_LOG_SD)


def upper_bound(log_sd: float, degrees: int) -> float:
    """Return the one-sided upper CONFIDENCE bound on a standard deviation (chi-squared)."""
    return log_sd * math.sqrt(degrees / float(_chi_squared(INTERVAL_LEVEL, degrees)))


def largest_credible(known: JobNoise, jobs: int) -> float:
    """Return the scatter that jobs with this noise exceed in 1 of 100 cases (F distribution)."""
    return known.log_sd * math.sqrt(float(scipy.special.fdtri(jobs - 1, known.degrees, 0.99)))


def repeats_to_detect(change: float, floor: float) -> int:
    """Return the number of jobs per side that detect a relative change with probability POWER.

    `floor` is the standard deviation from job to job, relative to the median. It is treated as
    an estimate from one side's jobs.
    """
    log_sd = _log_sd(floor)
    both = float(scipy.special.ndtri(T_TEST_POWER) - scipy.special.ndtri(LEVEL / 2))
    jobs = max(MINIMUM_SAMPLES, math.floor(2 * (both * log_sd / math.log1p(change)) ** 2))
    while change_detected_by(jobs, floor) > change:
        jobs += 1
    return jobs


def change_detected_by(jobs: int, floor: float) -> float:
    """Return the smallest relative change that this many jobs per side detect; see above."""
    noise = JobNoise(_log_sd(floor), jobs - 1, "repeats")
    return Resolution(noise, jobs, noise, jobs).smallest_detectable_change


def _log_sd(floor: float) -> float:
    return max(math.log1p(floor), LEAST_LOG_SD)


def relative(log_difference: float) -> float:
    """Convert a log difference to a fraction of the smaller value, capped to stay finite."""
    return math.expm1(min(log_difference, 100.0))


def _critical(
    first: Values,
    second: Values,
    first_degrees: float,
    second_degrees: float,
    level: float = LEVEL,
) -> NDArray[np.float64]:
    """Return the critical difference for these variances of the means.

    Uses Welch's degrees of freedom, but at most twice those of the side with fewer. With 3 jobs
    against 20, Welch's alone would trust three jobs that agree by chance (2 to 4 false calls in 100
    in simulation).
    """
    variance = np.add(first, second)
    uncertainty = np.square(first) / first_degrees + np.square(second) / second_degrees
    with np.errstate(divide="ignore"):
        welch = np.square(variance) / uncertainty
    degrees = np.minimum(welch, 2 * min(first_degrees, second_degrees))
    return np.asarray(-scipy.special.stdtrit(degrees, level / 2) * np.sqrt(variance))


@lru_cache(maxsize=4096)
def _detectable(
    share: float, first: float, second: float, first_credited: float, second_credited: float
) -> float:
    """Return the difference, in standard errors, that is detected with probability T_TEST_POWER.

    `share` is the first side's share of the variance. With fixed degrees of freedom, this would be
    the noncentral t distribution (Owen, Technometrics 10 (1968) 445). Welch's depend on the
    observed scatters, so the power P(difference > critical difference) is averaged over their
    chi-squared distributions and solved for the difference. Calls for the wrong side are too rare
    to count.
    """
    criticals = _critical(
        share * _scatters(first)[:, None],
        (1 - share) * _scatters(second),
        first_credited,
        second_credited,
    )

    def excess_power(difference: float) -> float:
        return float(np.mean(scipy.special.ndtr(difference - criticals))) - T_TEST_POWER

    return float(scipy.optimize.brentq(excess_power, 0.0, float(criticals.max()) + 10))


@lru_cache
def _scatters(degrees: float) -> NDArray[np.float64]:
    """Return quantiles of estimated variance / true variance for this many degrees of freedom."""
    if math.isinf(degrees):
        return np.ones(1)
    quantiles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return _chi_squared(quantiles, degrees) / degrees


def _chi_squared(share: Values, degrees: float) -> NDArray[np.float64]:
    """Return the quantiles below which these shares of a chi-squared distribution lie."""
    return np.asarray(2 * scipy.special.gammaincinv(degrees / 2, share))
