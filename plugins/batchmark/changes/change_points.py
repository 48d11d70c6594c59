"""Where a series of logs changes its level, found run by run as a schedule would.

After each run every earlier run is a candidate for the first of a new level: the runs from it on
are tested against the noise of up to WINDOW runs before it (`noise_model`). The first candidate
with enough evidence is a change, and the search continues behind it. At the end, changes that the
later runs do not bear out are dropped.

Constants called tuned were chosen in the simulation of docs/regressions.md ("How good it is"): few
false alerts at the same recall. The others are judgment, unless they name a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from batchmark.changes.noise_model import CLIP, NoiseDensity, Prior

if TYPE_CHECKING:
    from batchmark.changes.noise_model import Array

WINDOW = 60  # runs before a candidate that describe its noise: older ones say less of it
LEAST_BEFORE = 9  # runs at the start of a history, before there can be a change
LEAST_BETWEEN = 7  # runs from one change to the next: the noise before it is known, too
# Stretches of later runs, about evenly spaced in their logs. That four runs may do was tuned.
LENGTHS = (4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 23, 26, 30, 35, 40)
LEAST_AFTER = LENGTHS[0]
EVIDENCE = 5.0  # log likelihood ratio that a change needs; tuned
# Small shifts take long to show, and over long stretches drift and noise with a memory show, too.
EVIDENCE_PER_DOUBLING = 0.05  # share of EVIDENCE, added per doubling of the stretch; tuned
EVIDENCE_OF_SHORTEST = 6.0  # instead, for the shortest stretch, of which no run may disagree; tuned
# Nobody waits for good news, and after a false one the old level would look like a slowdown.
DOWN_FACTOR = 1.5  # tuned
WORTH_A_LOOK = 2.5  # standard errors: evidence is never enough below them; for speed
LEAST_LOG_SHIFT = 0.02  # however sure: changes below 2 % are hardly of interest; tuned
AGREEING = 0.6  # share of the later runs that must not be outliers of their own level
OUTLYING = 3.0  # scales from that level's median beyond which a run is one: the usual three sigma
ON_THE_WRONG_SIDE = 0.1  # share of later runs allowed on the old level's side; tuned ...
EXPECTED_FACTOR = 1.2  # ... beside this many times those that the noise alone puts there
NEAR = 3  # runs that the best fit may lie from the candidate
AT_A_TIME = 32  # series; with more, their tables leave the processor's caches
CARRIED_RUNS = 10  # runs that the noise of one level counts as on the next, at most
KEPT_P_VALUE = 5e-4  # of a change once all runs on either side are known; tuned
KEPT_LOG_SHIFT = 0.015  # then, too; below LEAST_LOG_SHIFT, lest changes come and go
SETTLED_AFTER = 10  # runs on the new level; a newer change is not dropped yet
LEAST_ERROR = 1e-12  # of a mean, so that equal runs divide by something


@dataclass(frozen=True)
class LevelChange:
    index: int  # first run of the new level
    shown_after: int  # number of runs of the series after which the change showed


@dataclass
class _Search:
    """How far the search through one series has come."""

    values: Array
    prior: Prior
    start: int = 0  # first run of the current level
    found: list[LevelChange] = field(default_factory=list)

    @property
    def candidates(self) -> NDArray[np.int64]:
        least = LEAST_BETWEEN if self.start else LEAST_BEFORE
        return np.arange(self.start + least, self.values.size - LEAST_AFTER + 1)


def search(
    series: Sequence[Array],
    priors: Sequence[Prior] | None = None,
    least_log_shift: float = LEAST_LOG_SHIFT,
) -> list[list[LevelChange]]:
    """Find, for each series, the changes that still show at its end, by index.

    Series are finite logs in the order of the runs, each of shape (n,). Shifts below
    `least_log_shift` are no changes.
    """
    known = priors or [Prior()] * len(series)
    searches = [_Search(values, prior) for values, prior in zip(series, known, strict=True)]
    for first in range(0, len(searches), AT_A_TIME):
        going = searches[first : first + AT_A_TIME]
        while going := [one for one in going if one.candidates.size]:
            going = _next_changes(going, least_log_shift)
    return [_still_shown(one.values, one.found) for one in searches]


def windows_before(values: Array, indexes: NDArray[np.int64], start: int = 0) -> Array:
    """The WINDOW runs before each index, but none before `start`; NaN where there are fewer."""
    columns = indexes[:, None] - 1 - np.arange(WINDOW)
    return np.where(columns >= start, values[np.maximum(columns, 0)], np.nan)


def _next_changes(searches: Sequence[_Search], least_log_shift: float) -> list[_Search]:
    """Find the next change of each series; return the searches that found one."""
    indexes = [one.candidates for one in searches]
    sizes = [one.size for one in indexes]
    noise = NoiseDensity.of(
        np.concatenate(
            [
                windows_before(one.values, own, one.start)
                for one, own in zip(searches, indexes, strict=True)
            ]
        ),
        np.repeat([one.prior.log_sd for one in searches], sizes),
        np.repeat([one.prior.runs for one in searches], sizes),
    )
    later = np.concatenate(
        [_runs_from(one.values, own) for one, own in zip(searches, indexes, strict=True)]
    )
    rows, lengths, weights = _evident(later - noise.center[:, None], noise, least_log_shift)
    firsts = np.concatenate(indexes)[rows]
    owner = np.repeat(np.arange(len(searches)), sizes)[rows]
    order = np.lexsort((-weights, firsts + lengths, owner))
    ends = np.searchsorted(owner[order], np.arange(len(searches) + 1))
    return [
        one
        for one, start, end in zip(searches, ends, ends[1:], strict=False)
        if _take_first(one, noise, rows[own := order[start:end]], firsts[own], lengths[own])
    ]


def _runs_from(values: Array, indexes: NDArray[np.int64]) -> Array:
    """The longest stretch of runs from each index on, NaN behind the end."""
    columns = indexes[:, None] + np.arange(LENGTHS[-1])
    return np.where(columns < values.size, values[np.minimum(columns, values.size - 1)], np.nan)


def _take_first(
    one: _Search,
    noise: NoiseDensity,
    rows: NDArray[np.int64],
    indexes: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> bool:
    """Take the first change to show, the strongest of its run, if a step fits best near it.

    Candidates come by when they show, then the strongest first: their `rows` in `noise`, `indexes`
    in the series, and the `lengths` of the stretches in which they show.
    """
    ends, firsts = np.unique(indexes + lengths, return_index=True)
    for end, first in zip(ends, firsts, strict=True):
        row, index = rows[first], int(indexes[first])
        best = _best_fit(one.values, one.start, index, int(end), float(noise.scale[row]))
        if abs(best - index) <= NEAR:
            one.found.append(LevelChange(best, int(end)))
            one.start = best
            one.prior = Prior(float(noise.log_sd[row]), min(int(noise.runs[row]), CARRIED_RUNS))
            return True
    return False


def _evident(
    later: Array, noise: NoiseDensity, least_log_shift: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """Row, length and weight of every stretch of later runs that shows a level of its own."""
    bound = CLIP * noise.scale[:, None]
    sums = np.cumsum(np.clip(later, -bound, bound), axis=1)
    counts = np.array(LENGTHS)
    shifts = sums[:, counts - 1] / counts - noise.mean[:, None]
    errors = noise.log_sd[:, None] * np.sqrt(1 / counts + 1 / noise.runs[:, None])
    worth = np.abs(shifts) > WORTH_A_LOOK * errors  # NaN is never greater
    looked_at = np.flatnonzero(worth.any(axis=1))
    own = noise.among(looked_at)
    found, weights = [], []
    for length, of_length in zip(LENGTHS, worth[looked_at].T, strict=True):
        rows = np.flatnonzero(of_length)
        stretches = later[looked_at[rows], :length]
        enough, weight = _weigh(stretches, rows, own, least_log_shift)
        found.append(looked_at[rows[enough]])
        weights.append(weight)
    lengths = np.repeat(counts, [rows.size for rows in found])
    return np.concatenate(found), lengths, np.concatenate(weights)


def _weigh(
    later: Array, rows: NDArray[np.int64], noise: NoiseDensity, least_log_shift: float
) -> tuple[NDArray[np.int64], Array]:
    """Which stretches have evidence enough, and their evidence over what is enough.

    `later` are stretches of one length, shape (rows, length), minus their windows' centers.
    """
    length = later.shape[1]
    shortest = length == LEAST_AFTER
    median = np.median(later, axis=1)
    agree = np.abs(later - median[:, None]) <= OUTLYING * noise.scale[rows, None]
    agreeing = agree.sum(axis=1)
    shift = (later * agree).sum(axis=1) / np.maximum(agreeing, 1) - noise.mean[rows]
    middle = noise.mean[rows] + shift / 2
    wrong = ((later - middle[:, None]) * np.sign(shift)[:, None] < 0).sum(axis=1)
    expected = special.ndtr(-np.abs(shift) / (2 * noise.log_sd[rows]))
    alike = np.flatnonzero(
        (np.minimum(np.abs(shift), np.abs(median)) > least_log_shift)
        & (median * shift > 0)
        & (agreeing >= (1 if shortest else AGREEING) * length)
        & (wrong <= np.floor(length * (ON_THE_WRONG_SIDE + EXPECTED_FACTOR * expected)))
    )
    shift = shift[alike]
    evidence = noise.evidence(rows[alike], later[alike], shift, median[alike])
    doublings = np.log2(length / LENGTHS[1])
    needed = (
        EVIDENCE_OF_SHORTEST if shortest else EVIDENCE * (1 + EVIDENCE_PER_DOUBLING * doublings)
    )
    weight = evidence / np.where(shift < 0, DOWN_FACTOR, 1.0) / needed
    return alike[weight > 1], weight[weight > 1]


def _best_fit(values: Array, start: int, index: int, end: int, scale: float) -> int:
    """First run of the new level where a step fits the runs from `start` to `end` best.

    By least squares, outliers clipped.
    """
    first = max(start, index - WINDOW)
    levels = np.median(values[first:index]), np.median(values[index:end])
    margin = 2 * scale
    clipped = np.clip(values[first:end], min(levels) - margin, max(levels) + margin)
    before = np.arange(1, clipped.size)
    after = clipped.size - before
    sums = np.cumsum(clipped)
    gap = sums[:-1] / before - (sums[-1] - sums[:-1]) / after
    least = min(LEAST_BETWEEN, index - first)
    fits = np.where((before >= least) & (after >= LEAST_AFTER), gap**2 * before * after, -1.0)
    return first + int(before[np.argmax(fits)])


def _still_shown(values: Array, found: Sequence[LevelChange]) -> list[LevelChange]:
    """The changes that all runs together still show; the weakest is dropped first."""
    kept = list(found)
    while kept:
        borders = [0, *(change.index for change in kept), values.size]
        strengths = [
            _strength(values[max(before, at - WINDOW) : at], values[at : min(after, at + WINDOW)])
            for before, at, after in zip(borders[:-2], borders[1:-1], borders[2:], strict=True)
        ]
        weakest = int(np.argmin(strengths))
        if strengths[weakest] >= 1:
            break
        del kept[weakest]
    return kept


def _strength(before: Array, after: Array) -> float:
    """Student's t between two levels, outliers clipped, over the t that a change must keep."""
    if after.size < SETTLED_AFTER:
        return np.inf
    degrees = before.size + after.size - 2
    clipped, squares = [], 0.0
    for level in (before, after):
        noise = NoiseDensity.of(level[None, :], np.zeros(1), np.zeros(1))
        bound = CLIP * noise.scale[0]
        clipped.append(np.clip(level, noise.center[0] - bound, noise.center[0] + bound))
        squares += float(np.sum((clipped[-1] - clipped[-1].mean()) ** 2))
    shift = abs(float(clipped[1].mean() - clipped[0].mean()))
    if shift < KEPT_LOG_SHIFT:
        return 0.0
    error = np.sqrt(squares / degrees * (1 / before.size + 1 / after.size))
    return float(shift / max(error, LEAST_ERROR) / stats.t.isf(KEPT_P_VALUE / 2, degrees))
