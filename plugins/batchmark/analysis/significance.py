"""Whether two targets' jobs differ by more than jobs of one target do.

A job's figure is the log of its median. Logs of equal jobs scatter with a standard deviation s, so
a difference of means over m and n jobs has the standard error sqrt(s1²/m + s2²/n) and is held
against Student's t (Welch, Biometrika 34 (1947) 28; Satterthwaite, Biometrics Bulletin 2 (1946)
110).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import optimize, stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Values = float | NDArray[np.float64]

NoiseSource = Literal["calibration", "repeats", "assumed"]

# Two-sided. Half of the 1 in 100 that A/A comparisons may call different, as margin.
LEVEL = 0.005
POWER = 0.95
# A decided row needs its interval to exclude 1 too, so the t-test may miss half as often only.
T_TEST_POWER = 1 - (1 - POWER) / 2
ENOUGH_REPEATS = 3
# For jobs of which nothing is known. With one job a side, 2.7 times is the least that counts.
ASSUMED_LOG_SD = 0.25
# A handful of equal medians does not prove less.
LEAST_LOG_SD = 0.001
# However many jobs a calibration had, one job may stall, so its noise counts as if known with so
# few degrees of freedom; the mean of m jobs, with m times as many. Found by simulation: skewed and
# heavy-tailed noise then stays below LEVEL x 2 from 1 job a side on.
DEGREES_PER_JOB = 2
QUANTILES = 50  # of a scatter, in the average over what it may come out as


@dataclass(frozen=True)
class JobNoise:
    """How the log medians of one target's jobs scatter, and how well that is known."""

    log_sd: float
    degrees: float
    source: NoiseSource

    def credited_degrees(self, jobs: int) -> float:
        """With which it is held against so many jobs' mean."""
        if self.source == "calibration":
            return min(self.degrees, DEGREES_PER_JOB * jobs)
        return self.degrees


ASSUMED = JobNoise(ASSUMED_LOG_SD, math.inf, "assumed")


@dataclass(frozen=True)
class Resolution:
    """What a comparison of so many jobs a side can tell apart."""

    first: JobNoise
    first_jobs: int
    second: JobNoise
    second_jobs: int

    @property
    def critical_difference(self) -> float:
        """Of mean log medians; noise alone exceeds it in LEVEL of all comparisons."""
        return float(_critical(*self._variances, *self._credited))

    @property
    def smallest_detectable_change(self) -> float:
        """Relative slow-down that is found with POWER; with a calibration, at most that without."""
        without = replace(self, first=_assumable(self.first), second=_assumable(self.second))
        return relative(min(self._detectable_difference, without._detectable_difference))

    @property
    def _detectable_difference(self) -> float:
        """Of mean log medians, were no calibration given up for the assumed noise."""
        first, second = self._variances
        share = round(first / (first + second), 2)
        degrees = self.first.degrees, self.second.degrees
        return math.sqrt(first + second) * _detectable(share, *degrees, *self._credited)

    @property
    def _variances(self) -> tuple[float, float]:
        """Of the two means."""
        return self.first.log_sd**2 / self.first_jobs, self.second.log_sd**2 / self.second_jobs

    @property
    def _credited(self) -> tuple[float, float]:
        return (
            self.first.credited_degrees(self.first_jobs),
            self.second.credited_degrees(self.second_jobs),
        )


def known_or_assumed(known: JobNoise, jobs: int) -> JobNoise:
    """A calibration's noise for so many jobs a side, or the assumed one where that decides more.

    It does where the calibration had few jobs. Each errs in LEVEL of all comparisons, so the better
    of both errs in twice that at most. More noise than is assumed is never argued away.
    """
    return min(
        (known, _assumable(known)),
        key=lambda noise: Resolution(noise, jobs, noise, jobs).critical_difference,
    )


def _assumable(noise: JobNoise) -> JobNoise:
    """What counts if a calibration is given up: the assumed noise, unless it found more."""
    if noise.source == "calibration" and noise.log_sd <= ASSUMED.log_sd:
        return ASSUMED
    return noise


def log_spread(medians: Sequence[float]) -> float:
    """Standard deviation of the logs of two or more medians (any positive unit)."""
    return max(float(np.std(np.log(medians), ddof=1)), LEAST_LOG_SD)


def upper_bound(log_sd: float, degrees: int) -> float:
    """One-sided 95 % bound of a standard deviation, from its chi-squared distribution."""
    return log_sd * math.sqrt(degrees / float(stats.chi2.ppf(0.05, degrees)))


def largest_credible(known: JobNoise, jobs: int) -> float:
    """Scatter that so many jobs of such noise exceed once in 100 times, by the F distribution."""
    return known.log_sd * math.sqrt(float(stats.f.isf(0.01, jobs - 1, known.degrees)))


def relative(log_difference: float) -> float:
    """As a share of the smaller one; finite, however absurd the difference."""
    return math.expm1(min(log_difference, 100.0))


def _critical(
    first: Values, second: Values, first_degrees: float, second_degrees: float
) -> NDArray[np.float64]:
    """Critical difference for these variances of the means.

    Welch's degrees of freedom, but at most twice the fewer of the two sides': with 3 jobs against
    20 his own let three that agree by chance pass for certainty (2 to 4 false calls in 100 in
    simulation).
    """
    variance = np.add(first, second)
    uncertainty = np.square(first) / first_degrees + np.square(second) / second_degrees
    with np.errstate(divide="ignore"):
        welch = np.square(variance) / uncertainty
    degrees = np.minimum(welch, 2 * min(first_degrees, second_degrees))
    return np.asarray(stats.t.isf(LEVEL / 2, degrees) * np.sqrt(variance))


@lru_cache(maxsize=4096)
def _detectable(
    share: float, first: float, second: float, first_credited: float, second_credited: float
) -> float:
    """Difference found with T_TEST_POWER, in standard errors, by the first side's share.

    Were the degrees of freedom fixed, this would be the noncentral t distribution (Owen,
    Technometrics 10 (1968) 445). Welch's depend on how the two scatters come out, so the power
    P(difference > critical difference) is averaged over their chi-squared distributions and solved
    for the difference. A call to the wrong side is too rare to count.
    """
    criticals = _critical(
        share * _scatters(first)[:, None],
        (1 - share) * _scatters(second),
        first_credited,
        second_credited,
    )

    def excess_power(difference: float) -> float:
        return float(np.mean(stats.norm.cdf(difference - criticals))) - T_TEST_POWER

    return float(optimize.brentq(excess_power, 0.0, float(criticals.max()) + 10))


@lru_cache
def _scatters(degrees: float) -> NDArray[np.float64]:
    """How a variance comes out that is known with so many degrees of freedom, over the true one."""
    if math.isinf(degrees):
        return np.ones(1)
    quantiles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return np.asarray(stats.chi2.ppf(quantiles, degrees) / degrees)
