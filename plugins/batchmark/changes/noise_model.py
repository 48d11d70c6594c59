"""Models a series' noise from its earlier runs, and how well this noise explains later ones.

Values are natural logs, so a difference is a relative change. The density of a run about its level
is a mixture: a normal core; a second one of the same width if the series alternates between two
speeds; and a flat part for runs that a noisy neighbour slows down. It is fitted by expectation
maximisation (Dempster, Laird & Rubin, J. R. Stat. Soc. B 39 (1977) 1), and the second core is
weighted by Schwarz's criterion (Ann. Stat. 6 (1978) 461). Because few runs leave a core's width
uncertain, later runs follow Student's t about it. A single outlier is therefore weak evidence, and
a value that the series often takes is none at all.

Constants marked as tuned were chosen in the simulation of docs/regressions.md ("How good it is")
for few false alerts at the same recall. The others are judgment calls, unless a reason is given.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Self, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

WINDOW = 60  # runs before a candidate that describe its noise: older ones say less of it
MAD_TO_SD = 1.4826  # median absolute deviation to sd, for a normal distribution: 1 / z(0.75)
CLIP = 3.0  # scales beyond which a run is an outlier and pulled in: the usual three sigma
LEAST_LOG_SD = 0.004  # a handful of equal runs does not prove less noise than 0.4 %
EXPECTED_LOG_SD = 0.03  # noise of a series of which nothing is known; tuned
EXPECTED_RUNS = 2  # runs that this expectation counts as; tuned
FLAT_SHARE = 0.04  # of runs that a neighbour slows down, by anything up to a factor of e
FLAT_RUNS = 10  # that this share counts as before there are any
SECOND_CORE = -3.0  # log odds of two speeds before there are runs
LEAST_AT_A_SPEED = 2  # runs, of either speed; fewer are outliers
LEAST_GAP = 2.0  # widths between two speeds; nearer ones are one wide core
# Share of the runs' variance that a split in two takes away, if two speeds are to be looked for;
# the best split takes 2 / pi, 64 %, of a normal distribution's. For speed.
SPLIT = 0.7
LEAST_SHARE = 1e-9  # of the runs in a core, to divide by
ROUNDS = 5  # of expectation maximisation; more change no alert
STEP, REACH = 0.25, 12.0  # of the density's grid, in widths of a core; for speed
GRID = np.arange(-REACH, REACH + STEP / 2, STEP)


@dataclass(frozen=True)
class Prior:
    """The noise assumed before a window's runs are seen, ideally taken from a calibration."""

    log_sd: float = EXPECTED_LOG_SD  # standard deviation of the logs
    runs: float = EXPECTED_RUNS  # how many runs this knowledge counts as


@dataclass(frozen=True)
class PerRow:
    """A record of arrays and nested records that share their first axis, the rows."""

    def __getitem__(self, rows: NDArray[np.int64]) -> Self:
        return type(self)(*(getattr(self, one.name)[rows] for one in fields(self)))


@dataclass(frozen=True)
class NoiseDensity(PerRow):
    """The noise before each of q runs, estimated from up to w earlier runs."""

    windows: Array  # shape (q, w), the earlier runs about their center; NaN where there are fewer
    runs: NDArray[np.int64]  # shape (q,), number of runs in each window
    center: Array  # shape (q,), median of each window
    mean: Array  # shape (q,), of the runs about the center, outliers clipped
    log_sd: Array  # shape (q,), robust standard deviation
    scale: Array  # shape (q,), robust as well, from the median absolute deviation
    prior_log_sd: Array  # shape (q,)
    prior_runs: Array  # shape (q,)

    @classmethod
    def of(cls, windows: Array, prior_log_sd: Array, prior_runs: Array) -> Self:
        """Estimate the noise in windows (NaN for missing runs), given priors of shape (q,)."""
        runs = np.count_nonzero(~np.isnan(windows), axis=1)
        center = median_of_rows(windows, runs)
        about = windows - center[:, None]
        scale = MAD_TO_SD * median_of_rows(np.abs(about), runs)
        scale = np.sqrt((prior_runs * prior_log_sd**2 + runs * scale**2) / (prior_runs + runs))
        scale = np.maximum(scale, LEAST_LOG_SD)
        clipped = np.clip(about, -CLIP * scale[:, None], CLIP * scale[:, None])
        mean = np.nansum(clipped, axis=1) / runs
        squares = np.nansum((clipped - mean[:, None]) ** 2, axis=1)
        variance = (prior_runs * prior_log_sd**2 + squares) / (prior_runs + runs - 1)
        log_sd = np.maximum(np.sqrt(variance), LEAST_LOG_SD)
        return cls(about, runs, center, mean, log_sd, scale, prior_log_sd, prior_runs)

    @property
    def clipped(self) -> Array:
        """The windows' runs minus their mean, with outliers clipped; 0 for missing runs."""
        bound = CLIP * self.scale[:, None]
        return np.nan_to_num(np.clip(self.windows, -bound, bound) - self.mean[:, None])

    def log_density(self, residuals: Array, rows: NDArray[np.int64] | None = None) -> Array:
        """Return log densities of later runs' offsets from the windows' centers; (rows, ...)."""
        width, table = self._table if rows is None else (each[rows] for each in self._table)
        shape = (-1,) + (1,) * (residuals.ndim - 1)
        # In place: half of the search's time is spent here.
        place = residuals / (STEP * width).reshape(shape)
        place += REACH / STEP
        np.clip(place, 0, GRID.size - 1.001, out=place)
        left = place.astype(np.int64)
        place -= left
        left += (np.arange(width.size) * GRID.size).reshape(shape)
        flat = table.ravel()
        below = flat.take(left)
        left += 1
        found = flat.take(left)
        found -= below
        found *= place
        found += below
        return np.asarray(found)

    def tail(self, log_values: Array) -> Array:
        """Return the probability that noise alone puts a run at least this far above the center.

        Values are relative to their windows' centers, shape (q,).
        """
        width, table = self._table
        density = np.exp(table)
        above = np.cumsum(density[:, ::-1], axis=1)[:, ::-1]
        place = (np.clip(log_values / width, -REACH, REACH) + REACH) / STEP
        left = np.minimum(place, GRID.size - 1.001).astype(np.int64)
        row = np.arange(width.size)
        tails = above[row, left] + (place - left) * (above[row, left + 1] - above[row, left])
        return np.asarray(tails / above[:, 0])

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        """The grid's unit, shape (q,), and the log density on the grid, shape (q, grid)."""
        there = ~np.isnan(self.windows)
        about = np.where(there, self.windows, 0.0)
        one, explained = self._fit(about, there, _Cores.single(self.scale))
        split, start = self._split(about, there)
        rows = np.flatnonzero(split)
        width = one.width
        weight = np.zeros(self.runs.size)
        if rows.size:
            few = self[rows]
            two, better = few._fit(about[rows], there[rows], start)
            weight[rows] = np.where(
                (np.minimum(two.second, 1 - two.second) * few.runs > LEAST_AT_A_SPEED)
                & (np.abs(two.gap) > LEAST_GAP * two.width),
                scipy.special.expit(better - explained[rows] - np.log(few.runs) + SECOND_CORE),
                0.0,
            )
            width = width.copy()
            width[rows] = np.sqrt(
                (1 - weight[rows]) * width[rows] ** 2 + weight[rows] * two.width**2
            )
        grid = GRID * width[:, None]
        freedom = (self.runs + self.prior_runs)[:, None]
        density = one.density(grid, freedom)
        if rows.size:
            share = weight[rows, None]
            of_two = two.density(grid[rows], freedom[rows])
            density[rows] = (1 - share) * density[rows] + share * of_two
        return width, np.log(density)

    def _split(self, about: Array, there: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], _Cores]:
        """Find windows that might have two speeds, and estimate the speeds from the best split."""
        ordered = np.sort(np.where(there, about, np.inf), axis=1)  # absent runs last
        sums = np.cumsum(np.where(np.isfinite(ordered), ordered, 0.0), axis=1)
        total = sums[:, -1]
        below = np.arange(1, about.shape[1])
        above = self.runs[:, None] - below
        low, high = sums[:, :-1] / below, (total[:, None] - sums[:, :-1]) / np.maximum(above, 1)
        both = (below > LEAST_AT_A_SPEED) & (above > LEAST_AT_A_SPEED)
        # Runs farther off than that are outliers, whose mean is no speed.
        both &= high - low < 6 * CLIP * self.scale[:, None]
        taken_away = np.where(both, (high - low) ** 2 * below * above, -1.0)
        best = np.argmax(taken_away, axis=1)
        row = np.arange(best.size)
        variance = (about**2).sum(axis=1) - total**2 / self.runs
        may = taken_away[row, best] > SPLIT * variance * self.runs
        low, high = low[row, best], high[row, best]
        start = _Cores(
            low,
            np.maximum(self.scale / 2, LEAST_LOG_SD),
            high - low,
            1 - (best + 1) / self.runs,
            np.full(best.size, FLAT_SHARE),
        )
        return may, start[np.flatnonzero(may)]

    def _fit(self, about: Array, there: NDArray[np.bool_], start: _Cores) -> tuple[_Cores, Array]:
        """Fit the cores that best explain the windows' runs; also return log likelihoods, (q,)."""
        cores, runs = start, self.runs
        for _ in range(ROUNDS):
            first, second, flat = cores.parts(about, there)
            every = first + second + flat[:, None]
            first, second = first / every, second / every
            at_first, at_second = first.sum(axis=1), second.sum(axis=1)
            at = (first * about).sum(axis=1) / np.maximum(at_first, LEAST_SHARE)
            gap = (second * about).sum(axis=1) / np.maximum(at_second, LEAST_SHARE) - at
            gap = np.where(at_second > 0.5, gap, cores.gap)
            squares = (first * (about - at[:, None]) ** 2).sum(axis=1)
            squares += (second * (about - (at + gap)[:, None]) ** 2).sum(axis=1)
            in_cores = at_first + at_second
            variance = (self.prior_runs * self.prior_log_sd**2 + squares) / (
                self.prior_runs + in_cores - 1
            )
            cores = _Cores(
                at,
                np.sqrt(np.maximum(variance, LEAST_LOG_SD**2)),
                gap,
                np.where(cores.second > 0, (at_second + 0.5) / (in_cores + 1), 0.0),
                (runs - in_cores + FLAT_RUNS * FLAT_SHARE) / (runs + FLAT_RUNS),
            )
        first, second, flat = cores.parts(about, there)
        every = np.log(first + second + flat[:, None])
        return cores, np.where(there, every, 0.0).sum(axis=1)


@dataclass(frozen=True)
class _Cores(PerRow):
    """One normal core, or two of equal width, plus a flat part; each of shape (q,)."""

    at: Array  # mean of the first, about the window's center
    width: Array  # standard deviation
    gap: Array  # from the first to the second
    second: Array  # its share of the runs in the cores; 0 if there is one
    flat: Array  # share of the runs in neither

    @classmethod
    def single(cls, width: Array) -> Self:
        zero = np.zeros(width.size)
        return cls(zero, width, zero, zero, np.full(width.size, FLAT_SHARE))

    def parts(self, about: Array, there: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        """Return both cores' densities, (q, w) with 0 for missing runs, and the flat part's."""
        height = there * ((1 - self.flat) / (self.width * np.sqrt(2 * np.pi)))[:, None]

        def core(at: Array, share: Array) -> Array:
            distance = (about - at[:, None]) / self.width[:, None]
            return np.asarray(np.exp(-(distance**2) / 2) * height * share[:, None])

        first = core(self.at, 1 - self.second)
        second = core(self.at + self.gap, self.second) if self.second.any() else 0 * first
        return first, second, self.flat

    def density(self, values: Array, freedom: Array) -> Array:
        """Return later runs' density (q, n) by Student's t, given degrees of freedom (q, 1)."""

        def core(at: Array) -> Array:
            return np.asarray(scipy.stats.t.pdf(values, freedom, at[:, None], self.width[:, None]))

        found = core(self.at)
        if self.second.any():
            share = self.second[:, None]
            found = (1 - share) * found + share * core(self.at + self.gap)
        return np.asarray((1 - self.flat[:, None]) * found + self.flat[:, None])


def median_of_rows(values: Array, counts: NDArray[np.int64]) -> Array:
    """Return each row's median, ignoring NaN; much faster than nanmedian on many short rows."""
    ordered = np.sort(values, axis=1)  # NaN last
    rows = np.arange(counts.size)
    return np.asarray((ordered[rows, (counts - 1) // 2] + ordered[rows, counts // 2]) / 2)


def windows_before(values: Array, indexes: NDArray[np.int64]) -> Array:
    """Return the WINDOW runs before each index, oldest first, padded with NaN."""
    return runs_at(values, indexes, np.arange(-WINDOW, 0))


def runs_at(values: Array, indexes: NDArray[np.int64], steps: NDArray[np.int64]) -> Array:
    """Return the runs that are `steps` away from each index, (indexes, steps); NaN if missing."""
    places = indexes[:, None] + steps
    there = (places >= 0) & (places < values.size)
    return np.where(there, values.take(places, mode="clip"), np.nan)
