"""Computes the evidence that a series has a new level starting at a candidate run.

The runs are weighed against the noise of up to WINDOW earlier runs (`noise_model`), by the
likelihood ratio of a shift averaged over shifts of many sizes, as in Wald's sequential test.
Autocorrelated noise produces stretches of runs that look like a level, so evidence is divided by
the factor by which the correlation of neighbouring runs inflates the variance of their mean.

The density is only an estimate, and noise can have a different shape, so the density is checked on
the window's own runs: if it is right, likelihood ratios of old-level runs average to 1. If their
average is higher, they are raised to about the power that makes it 1, the adjustment coefficient of
Cramer and Lundberg (Asmussen & Albrecher, Ruin Probabilities, 2010).

Constants marked as tuned were chosen in the simulation of docs/regressions.md ("How good it is")
for few false alerts at the same recall. The others are judgment calls, unless a reason is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import scipy
from numpy.typing import NDArray

from batchmark.changes.noise_model import (
    CLIP,
    LEAST_LOG_SD,
    WINDOW,
    Array,
    NoiseDensity,
    PerRow,
    Prior,
    median_of_rows,
    runs_at,
    windows_before,
)
from batchmark.changes.steps import LevelChange, Step, drift_of, is_back

LEAST_BEFORE = 7  # runs at the start of a history; after fewer, four runs can't show a change
LEAST_BETWEEN = 4  # runs from one change to the next
LEAST_AFTER = 4  # runs on a new level; fewer may be a neighbour's short visit
MOST_AFTER = 40  # runs from a candidate on that are weighed
SHIFTS = np.geomspace(np.log1p(0.03), 0.8, 8)  # sizes that a shift may have; the least was tuned
RATIO = SHIFTS[1] / SHIFTS[0]
EVIDENCE = 4.4  # log likelihood ratio that a change needs, or more (`false_alerts`); tuned
# Small shifts take long to show, and over long stretches drift and noise with a memory show, too.
EVIDENCE_PER_DOUBLING = 0.1  # share of it, added per doubling of the stretch from ...
SHORT = 5  # ... so many runs; both tuned
# Good news can wait, and after false good news the old level would look like a slow-down.
DOWN_FACTOR = 2.0  # tuned
PER_CHANGE = 0.15  # of the evidence, more for each change in the window: it may change by itself
UNKNOWN_RUNS = 4  # of a window, used up by estimating its noise; tuned ...
LEAST_KNOWN = 0.1  # ... but at least this share of it counts
WORTH_A_LOOK = 3.0  # standard errors of a mean; evidence for less is the density's fault; tuned
SURE_CORRELATION = 0.75  # standard errors to subtract, as noise without memory has some, too; tuned
CORRELATION_RUNS = 10  # added to the window's, as if uncorrelated; tuned
MOST_CORRELATION = 0.97
IN_A_ROW = 4  # runs of the old level that judge the density together, as well as singly
HONEST_RUNS = 10  # added to the window's, as if the density were right for them; tuned
LEAST_POWER = 0.01
AGAINST = 1.5  # evidence against a level by which its first or last runs aren't on it


@dataclass
class Search:
    """The state of a search through one series."""

    values: Array
    prior: Prior
    least_after: int  # figures on a new level
    evidence: float  # log likelihood ratio that a change needs
    start: int = 0  # first run of the current level
    first: int = LEAST_BEFORE  # first candidate
    base: float = 0.0  # logs of the current level minus those of the first
    levelled: Array = field(init=False)  # the values, brought to the current level
    steps: list[int] = field(default_factory=list)
    last: Step | None = None
    found: list[LevelChange] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.levelled = self.values.copy()

    @property
    def candidates(self) -> NDArray[np.int64]:
        return np.arange(self.first, self.values.size - self.least_after + 1)

    @property
    def newest(self) -> NDArray[np.int64]:
        """Candidates for a level that lasts to the end of the series, however few runs it has."""
        return np.arange(max(self.first, self.values.size - MOST_AFTER), self.values.size)

    def take(self, index: int, shown_after: int, shift: float, scale: float) -> None:
        """Continue after a step, recording it as a new change or as part of the last drift."""
        self.steps.append(index)
        self.first = index + LEAST_BETWEEN
        last, self.last = self.last, Step(index, shift, self.start, self.base)
        drift = last and drift_of(self.values[:shown_after], last, self.last, scale)
        if drift is not None:
            self.found[-1] = replace(self.found[-1], drift=drift)
        else:
            self.found.append(LevelChange(index, shown_after))
        if last and is_back(last, self.last):
            self.start, self.base, self.last = last.start, last.base, None
            since = last.first
        else:
            self.start, self.base = index, self.base + shift
            since = index
        self.levelled[since:] = self.values[since:] - self.base


@dataclass(frozen=True)
class Candidates(PerRow):
    """Possible first runs of new levels: q candidates from many series."""

    own: NDArray[np.int64]  # shape (q,), place of their series among those searched
    index: NDArray[np.int64]  # shape (q,), in the series
    on_level: NDArray[np.int64]  # shape (q,), runs of the window on the current level
    changes: NDArray[np.int64]  # shape (q,), in the window
    least_after: NDArray[np.int64]  # shape (q,), figures on the new level
    needed: Array  # shape (q,), evidence that a change needs
    noise: NoiseDensity  # before each
    scattered: Array  # shape (q, WINDOW), the windows about their levels; 0 where there is no run
    center: Array  # shape (q,), where their noise has its 0
    later: Array  # shape (q, MOST_AFTER), minus the center; NaN behind the end

    @classmethod
    def of(cls, searches: Sequence[Search], indexes: Sequence[NDArray[np.int64]]) -> Self:
        own = np.repeat(np.arange(len(searches)), [each.size for each in indexes])
        index = np.concatenate(indexes)
        both = list(zip(searches, indexes, strict=True))
        noise = NoiseDensity.of(
            np.concatenate([windows_before(one.levelled, each) for one, each in both]),
            np.array([one.prior.log_sd for one in searches])[own],
            np.array([one.prior.runs for one in searches])[own],
        )
        steps = [np.array(one.steps)[:, None] for one in searches]
        changes = np.concatenate(
            [np.sum(at > each - WINDOW, axis=0) for at, each in zip(steps, indexes, strict=True)]
        )
        on_level = np.minimum(index - np.array([one.start for one in searches])[own], WINDOW)
        # Earlier levels were brought to this one by an estimate, so its own runs say where it is.
        scattered = noise.clipped
        is_on_level = np.arange(-WINDOW, 0) >= -on_level[:, None]
        offset = (scattered * is_on_level).sum(axis=1) / on_level
        scattered = np.where(is_on_level & (scattered != 0), scattered - offset[:, None], scattered)
        center = noise.center + offset
        stretch = np.arange(MOST_AFTER)
        later = np.concatenate([runs_at(one.levelled, each, stretch) for one, each in both])
        later -= center[:, None]
        return cls(
            own=own,
            index=index,
            on_level=on_level,
            changes=changes,
            least_after=np.array([one.least_after for one in searches])[own],
            needed=np.array([one.evidence for one in searches])[own],
            noise=noise,
            scattered=scattered,
            center=center,
            later=later,
        )

    @cached_property
    def stand_out(self) -> Array:
        """The largest distance between a mean of later runs and the level, in standard errors.

        Negative if below the level; shape (q,).
        """
        noise, runs = self.noise, np.arange(1, MOST_AFTER + 1)
        bound = CLIP * noise.scale[:, None]
        shifts = np.cumsum(np.clip(self.later, -bound, bound), axis=1) / runs - noise.mean[:, None]
        errors = noise.log_sd[:, None] * np.sqrt(1 / runs + 1 / self.on_level[:, None])
        found = np.where(runs >= self.least_after[:, None], np.nan_to_num(shifts / errors), 0.0)
        highest, lowest = found.max(axis=1), found.min(axis=1)
        return np.asarray(np.where(highest >= -lowest, highest, lowest))

    def worth_a_look(self) -> Self:
        return self[np.flatnonzero(np.abs(self.stand_out) > WORTH_A_LOOK)]

    @property
    def up(self) -> NDArray[np.bool_]:
        """Whether the later runs are above the level rather than below; shape (q,)."""
        return self.stand_out >= 0

    @cached_property
    def shifts(self) -> Array:
        """SHIFTS in each candidate's direction, scaled so that one fits its first runs.

        Shape (q, shifts).
        """
        sign = np.where(self.up, 1, -1)
        first = self.later[:, :LEAST_AFTER]
        first = median_of_rows(first, np.count_nonzero(~np.isnan(first), axis=1)) * sign
        places = np.log(np.clip(first, SHIFTS[0], SHIFTS[-1]) / SHIFTS[0]) / np.log(RATIO)
        return np.asarray(sign[:, None] * SHIFTS * RATIO ** (places - np.rint(places))[:, None])

    @property
    def correlation(self) -> Array:
        """The correlation of neighbouring runs in the window; 0 unless significant. Shape (q,)."""
        runs, about = self.noise.runs, self.scattered
        products = (about[:, 1:] * about[:, :-1]).sum(axis=1)
        seen = products / np.maximum((about**2).sum(axis=1), LEAST_LOG_SD**2)
        # The sample correlation of independent runs about their own mean is biased by -1 / runs.
        sure = runs * seen + 1 - SURE_CORRELATION * np.sqrt(runs)
        return np.asarray(np.clip(sure / (runs + CORRELATION_RUNS), 0, MOST_CORRELATION))


@dataclass(frozen=True)
class Evidence:
    """Evidence that the first 1 to MOST_AFTER runs from each candidate are at a new level."""

    candidates: Candidates
    ratios: Array  # shape (q, runs, shifts), log likelihood ratios of single runs
    known: Array  # shape (q, runs), what such a ratio counts in so long a stretch
    weight: Array  # shape (q, runs), evidence over what is enough; above 1, the level is a new one

    @classmethod
    def of(cls, candidates: Candidates) -> Self:
        noise, later = candidates.noise, candidates.later
        runs = np.arange(1, MOST_AFTER + 1)
        there = np.clip(np.nan_to_num(later), -SHIFTS[-1], SHIFTS[-1])[:, :, None]
        shifts = candidates.shifts[:, None, :]
        ratios = noise.log_density(there - shifts) - noise.log_density(there)
        # The level and the noise are estimates, too.
        known = np.maximum(1 - UNKNOWN_RUNS / noise.runs, LEAST_KNOWN)[:, None]
        known = known / (1 + runs / candidates.on_level[:, None])
        known = known / _variance_inflation(candidates.correlation[:, None], runs)
        total = np.cumsum(ratios, axis=1) * known[:, :, None]
        best = total.max(axis=2)
        evidence = best + np.log(np.exp(total - best[:, :, None]).mean(axis=2))
        doublings = np.log2(np.maximum(runs, SHORT) / SHORT)
        needed = candidates.needed[:, None] * (1 + EVIDENCE_PER_DOUBLING * doublings)
        needed = needed * (1 + PER_CHANGE * candidates.changes[:, None])
        needed = needed * np.where(candidates.up, 1, DOWN_FACTOR)[:, None]
        return cls(candidates, ratios, known, np.where(np.isnan(later), 0.0, evidence / needed))

    def enough(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """For each last run, yield row and length of the strongest stretch that proves a level."""
        lengths = np.arange(1, MOST_AFTER + 1)
        usable = lengths >= self.candidates.least_after[rows, None]
        hits, lengths = np.nonzero(usable & (self.weight[rows] >= 1))
        lengths += 1
        weights = self.weight[rows[hits], lengths - 1]
        ends = self.candidates.index[rows][hits] + lengths
        order = np.lexsort((-weights, ends))
        for place in order[np.unique(ends[order], return_index=True)[1]]:
            yield int(rows[hits[place]]), int(lengths[place])

    def shift(self, row: int, length: int) -> float:
        """Return the most likely shift of the new level."""
        later = self.candidates.later[row, :length]
        place = self._likeliest(row, length)
        if place == SHIFTS.size - 1:  # or more
            return float(np.median(later))
        sizes = np.linspace(0.75, 1.3, 34) * self.candidates.shifts[row, place]
        likely = self.candidates.noise.log_density(
            (later - sizes[:, None])[None], rows=np.array([row])
        )
        return float(sizes[np.argmax(likely[0].sum(axis=1))])

    def is_partial(self, row: int, length: int) -> bool:
        """Check whether a stretch's first or last runs contradict the level of the others."""
        of_runs = self.ratios[row, :length, self._likeliest(row, length)]
        least = min(np.cumsum(of_runs).min(), np.cumsum(of_runs[::-1]).min())
        return bool(least * self.known[row, length - 1] < -AGAINST)

    def tempered(self, row: int, length: int) -> float:
        """Return a stretch's weight, reduced if the window's own runs show similar evidence."""
        candidates = self.candidates
        window = candidates.noise.windows[row]
        about = window[~np.isnan(window)] + candidates.noise.center[row] - candidates.center[row]
        shift = candidates.shifts[row, self._likeliest(row, length)]
        with_shift, without = candidates.noise.log_density(
            np.stack([about - shift, about])[None], rows=np.array([row])
        )[0]
        ratios = with_shift - without
        sums = np.convolve(ratios, np.ones(min(length, IN_A_ROW, ratios.size // 3)), "valid")
        power = min(_power(ratios), _power(sums))
        honest = HONEST_RUNS / (ratios.size + HONEST_RUNS)
        return float(self.weight[row, length - 1] * (honest + (1 - honest) * power))

    def _likeliest(self, row: int, length: int) -> int:
        """Return the index in SHIFTS of the most likely shift."""
        return int(np.argmax(self.ratios[row, :length].sum(axis=0)))


def _power(log_ratios: Array) -> float:
    """Return the largest power up to 1 at which likelihood ratios, (n,), average to at most 1."""

    def above(power: float) -> float:
        return float(np.logaddexp.reduce(power * log_ratios) - np.log(log_ratios.size))

    if above(1.0) <= 0:
        return 1.0
    if above(LEAST_POWER) >= 0:
        return LEAST_POWER
    return float(scipy.optimize.brentq(above, LEAST_POWER, 1.0, xtol=1e-3))


def _variance_inflation(correlation: Array, runs: NDArray[np.int64]) -> Array:
    """Return the factor by which neighbours' correlation r inflates the variance of a mean.

    For n runs of a first-order autoregressive process: 1 + 2 (r / (1 - r) - r (1 - r^n) / (n (1 -
    r)^2)).
    """
    rest = 1 - correlation
    return np.asarray(
        1 + 2 * correlation / rest - 2 * correlation * (1 - correlation**runs) / (runs * rest**2)
    )
