"""The noise of a series as its earlier runs show it, and how well it explains later ones.

Values are natural logs, so a difference is a relative change. The density of a run about its level
is a kernel estimate from the earlier runs (Silverman, Density Estimation for Statistics and Data
Analysis, 1986, chapter 2), mixed with Student's t for values that were not seen yet, and with a
flat part for runs that a noisy neighbour slows down. Later runs are tested against it with the
log of the likelihood ratio between "their level is shifted by d" and "it is not". So a single
outlier is hardly any evidence, and a series that jumps between two values by itself has no change.

Constants called tuned were chosen in the simulation of docs/regressions.md ("How good it is"): few
false alerts at the same recall. The others are judgment, unless they name a reason.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats

if TYPE_CHECKING:
    Array = NDArray[np.float64]

MAD_TO_SD = 1.4826  # median absolute deviation to sd, for a normal distribution: 1 / z(0.75)
CLIP = 3.0  # scales beyond which a run is an outlier and pulled in: the usual three sigma
LEAST_LOG_SD = 0.004  # a handful of equal runs does not prove less noise than 0.4 %
EXPECTED_LOG_SD = 0.03  # noise of a series of which nothing is known; tuned
EXPECTED_RUNS = 2  # runs that this expectation counts as; tuned
BANDWIDTH = 0.5  # of the kernel, in scales; tuned
UNSEEN_RUNS = 8  # runs that Student's t counts as; tuned
UNSEEN_DEGREES = 5  # of freedom of that t: tails heavier than normal, with a finite variance
FLAT_SHARE = 0.05  # of runs that a neighbour slows down, by anything up to a factor of e
STEP, REACH = 0.25, 8.0  # of the density's grid, in scales: half a bandwidth apart; for speed
GRID = np.arange(-REACH, REACH + STEP / 2, STEP)


@lru_cache(maxsize=1)
def _kernel() -> Array:
    return np.asarray(stats.norm.pdf((GRID[:, None] - GRID) / BANDWIDTH) / BANDWIDTH)


@lru_cache(maxsize=1)
def _unseen() -> Array:
    return np.asarray(stats.t.pdf(GRID, UNSEEN_DEGREES))


@dataclass(frozen=True)
class Prior:
    """What is known of the noise before the runs of a window are.

    A calibration, or the level before, gives a better one than the default.
    """

    log_sd: float = EXPECTED_LOG_SD  # standard deviation of the logs
    runs: float = EXPECTED_RUNS  # how many runs this knowledge counts as


@dataclass(frozen=True)
class NoiseDensity:
    """The noise before each of q runs, estimated from up to w earlier runs."""

    windows: Array  # shape (q, w), the earlier runs about their center; NaN where there are fewer
    runs: NDArray[np.int64]  # shape (q,), number of runs in each window
    center: Array  # shape (q,), median of each window
    mean: Array  # shape (q,), of the runs about the center, outliers clipped
    log_sd: Array  # shape (q,), robust standard deviation
    scale: Array  # shape (q,), unit of the density's grid

    @classmethod
    def of(cls, windows: Array, prior_log_sd: Array, prior_runs: Array) -> Self:
        """Estimate the noise in windows, NaN where a window has fewer runs; priors: shape (q,)."""
        runs = np.count_nonzero(~np.isnan(windows), axis=1)
        center = _median(windows, runs)
        about = windows - center[:, None]
        scale = MAD_TO_SD * _median(np.abs(about), runs)
        scale = np.sqrt((prior_runs * prior_log_sd**2 + runs * scale**2) / (prior_runs + runs))
        scale = np.maximum(scale, LEAST_LOG_SD)
        clipped = np.clip(about, -CLIP * scale[:, None], CLIP * scale[:, None])
        mean = np.nansum(clipped, axis=1) / runs
        squares = np.nansum((clipped - mean[:, None]) ** 2, axis=1)
        variance = (prior_runs * prior_log_sd**2 + squares) / (prior_runs + runs - 1)
        log_sd = np.maximum(np.sqrt(variance), LEAST_LOG_SD)
        return cls(about, runs, center, mean, log_sd, np.maximum(scale, log_sd))

    def among(self, rows: NDArray[np.int64]) -> Self:
        """The noise in some of the windows only."""
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))

    @cached_property
    def _log_density(self) -> Array:
        """On the grid, per scale; shape (q, grid)."""
        count, bins = self.runs.size, GRID.size
        cells = np.rint((np.clip(self.windows / self.scale[:, None], -REACH, REACH) + REACH) / STEP)
        rows, columns = np.nonzero(~np.isnan(cells))
        flat = rows * bins + cells[rows, columns].astype(np.int64)
        seen = np.bincount(flat, minlength=count * bins).reshape(count, bins)
        density = (seen @ _kernel() + UNSEEN_RUNS * _unseen()) / (self.runs[:, None] + UNSEEN_RUNS)
        return np.log((1 - FLAT_SHARE) * density + FLAT_SHARE * self.scale[:, None])

    def _log_likelihood(self, rows: NDArray[np.int64], residuals: Array) -> Array:
        """Summed over each row's residuals, which have shape (rows, m)."""
        place = np.clip(residuals / self.scale[rows, None], -REACH, REACH) + REACH
        place = np.minimum(place / STEP, GRID.size - 1.001)
        left = place.astype(np.int64)
        share = place - left
        table = self._log_density
        below, above = table[rows[:, None], left], table[rows[:, None], left + 1]
        total: Array = np.sum(below + share * (above - below), axis=1)
        return total

    def tail(self, rows: NDArray[np.int64], shifts: Array) -> Array:
        """Probability that noise alone puts a run at least so far above its window's center.

        Shifts have shape (rows,).
        """
        density = np.exp(self._log_density[rows])
        above = np.cumsum(density[:, ::-1], axis=1)[:, ::-1]
        place = np.clip(shifts / self.scale[rows], -REACH, REACH) + REACH
        left = np.minimum(place / STEP, GRID.size - 1.001).astype(np.int64)
        share = place / STEP - left
        row = np.arange(rows.size)
        tails = above[row, left] + share * (above[row, left + 1] - above[row, left])
        return np.asarray(tails / above[:, 0])

    def evidence(self, rows: NDArray[np.int64], later: Array, *shifts: Array) -> Array:
        """Log likelihood ratios for the best of some shifts of later runs, shape (rows,).

        Scaled down the less exactly the windows' own level is known. Later runs are minus their
        windows' centers, shape (rows, m); each of the shifts has shape (rows,).
        """
        unshifted = self._log_likelihood(rows, later)
        best = np.max(
            [self._log_likelihood(rows, later - shift[:, None]) for shift in shifts], axis=0
        )
        known = self.runs[rows] / (self.runs[rows] + later.shape[1])
        return np.asarray((best - unshifted) * known)


def _median(values: Array, counts: NDArray[np.int64]) -> Array:
    """Median of each row without its NaN; far quicker than nanmedian on many short rows."""
    ordered = np.sort(values, axis=1)  # NaN last
    rows = np.arange(counts.size)
    return np.asarray((ordered[rows, (counts - 1) // 2] + ordered[rows, counts // 2]) / 2)
