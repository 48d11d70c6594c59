"""Where a series of logs changes its level: run by run, as a schedule would learn of it.

After each run every earlier one is a candidate for the first of a new level. The runs from it on
are held against the noise of up to WINDOW runs before it (`noise_density`). The first candidate
with enough evidence is a change, and the search goes on behind it. At the end, changes that later
runs took back are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy import special, stats

from batchmark.noise_density import CLIP, NoiseDensity, Prior

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from batchmark.noise_density import Array

WINDOW = 60  # runs before a candidate that count
LEAST_BEFORE = 9  # runs, at the start of a history
LEAST_BETWEEN = 7  # runs, after a change
LENGTHS = (4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 23, 26, 30, 35, 40)
LEAST_AFTER = LENGTHS[0]
EVIDENCE = 5.0
# A small shift takes many runs to show, in which drift and noise with a memory show, too.
EVIDENCE_PER_DOUBLING = 0.05
EVIDENCE_OF_SHORTEST = 6.0  # that no run may disagree with
DOWN_FACTOR = 1.5  # nobody waits for good news; and a false one makes the next slow-down look false
WORTH_A_LOOK = 2.5  # standard errors; below, the evidence is never enough
LEAST_LOG_SHIFT = 0.02  # whatever the evidence
AGREEING = 0.6  # of the later runs, at least, lie about their own median
OUTLYING = 3.0  # scales from that median
ON_THE_WRONG_SIDE = 0.1  # of the later runs, at most, beside what the noise lets expect
EXPECTED_FACTOR = 1.2
NEAR = 3  # runs that the best place may lie from the candidate
AT_A_TIME = 32  # series; more take longer, for their tables leave the caches
CARRIED_RUNS = 10  # for which the noise of one level counts in the next
KEPT_P_VALUE = 5e-4  # of a change, with all runs on either side
SETTLED_AFTER = 10  # runs; a newer change is not taken back yet
KEPT_LOG_SHIFT = 0.015


@dataclass(frozen=True)
class Found:
    """A change of level.

    Attributes:
        index: first run of the new level.
        at: number of runs after which it showed.
    """

    index: int
    at: int


@dataclass
class _Series:
    """How far the search through one series is."""

    values: Array
    prior: Prior
    start: int = 0
    found: list[Found] = field(default_factory=list)

    @property
    def candidates(self) -> NDArray[np.int64]:
        least = LEAST_BETWEEN if self.start else LEAST_BEFORE
        return np.arange(self.start + least, self.values.size - LEAST_AFTER + 1)


def search(
    series: Sequence[Array],
    priors: Sequence[Prior] | None = None,
    least_log_shift: float = LEAST_LOG_SHIFT,
) -> list[list[Found]]:
    """For each series all changes that stand at its end, by index.

    Args:
        series: of shapes (n,), finite logs in the order of the runs.
        priors: of the noise, one a series; None for the default.
        least_log_shift: below which a change is none.
    """
    known = priors or [Prior()] * len(series)
    states = [_Series(values, prior) for values, prior in zip(series, known, strict=True)]
    for first in range(0, len(states), AT_A_TIME):
        going = states[first : first + AT_A_TIME]
        while going := [state for state in going if state.candidates.size]:
            going = _advance(going, least_log_shift)
    return [_standing(state.values, state.found) for state in states]


def windows_before(values: Array, indexes: NDArray[np.int64], start: int = 0) -> Array:
    """The WINDOW runs before each index and not before `start`, NaN where there are fewer."""
    columns = indexes[:, None] - 1 - np.arange(WINDOW)
    return np.where(columns >= start, values[np.maximum(columns, 0)], np.nan)


def _advance(states: Sequence[_Series], least_log_shift: float) -> list[_Series]:
    """Find each series' next change; those that have one go on behind it."""
    indexes = [state.candidates for state in states]
    sizes = [one.size for one in indexes]
    noise = NoiseDensity.of(
        np.concatenate(
            [
                windows_before(state.values, one, state.start)
                for state, one in zip(states, indexes, strict=True)
            ]
        ),
        np.repeat([state.prior.log_sd for state in states], sizes),
        np.repeat([state.prior.runs for state in states], sizes),
    )
    later = np.concatenate(
        [_runs_from(state.values, one) for state, one in zip(states, indexes, strict=True)]
    )
    rows, lengths, weights = _candidates(later - noise.center[:, None], noise, least_log_shift)
    place = np.concatenate(indexes)[rows]
    owner = np.repeat(np.arange(len(states)), sizes)[rows]
    order = np.lexsort((-weights, place + lengths, owner))
    ends = np.searchsorted(owner[order], np.arange(len(states) + 1))
    return [
        state
        for state, first, end in zip(states, ends, ends[1:], strict=False)
        if _accept(state, noise, rows[own := order[first:end]], place[own], lengths[own])
    ]


def _runs_from(values: Array, indexes: NDArray[np.int64]) -> Array:
    """The longest stretch of runs from each index on, NaN behind the end."""
    columns = indexes[:, None] + np.arange(LENGTHS[-1])
    return np.where(columns < values.size, values[np.minimum(columns, values.size - 1)], np.nan)


def _accept(
    state: _Series,
    noise: NoiseDensity,
    rows: NDArray[np.int64],
    places: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> bool:
    """Take the first candidate to show, the strongest of its run, if a step fits best near it.

    Args:
        rows: of the candidates in `noise`, in the order in which they show.
        places: of the candidates in the series.
        lengths: of the stretches that show them.
    """
    ends, firsts = np.unique(places + lengths, return_index=True)
    for at, first in zip(ends, firsts, strict=True):
        row, index = rows[first], int(places[first])
        place = _place(state.values, state.start, index, int(at), float(noise.scale[row]))
        if abs(place - index) <= NEAR:
            state.found.append(Found(place, int(at)))
            state.start = place
            state.prior = Prior(float(noise.log_sd[row]), min(int(noise.runs[row]), CARRIED_RUNS))
            return True
    return False


def _candidates(
    later: Array, noise: NoiseDensity, least_log_shift: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """Row, length and weight of every stretch of later runs with evidence for its own level."""
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
    """Which stretches of one length, `later` of shape (rows, length), are enough, and how much."""
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


def _place(values: Array, start: int, index: int, at: int, scale: float) -> int:
    """Where before `at` a step fits best by least squares, outliers clipped."""
    first = max(start, index - WINDOW)
    levels = np.median(values[first:index]), np.median(values[index:at])
    margin = 2 * scale
    clipped = np.clip(values[first:at], min(levels) - margin, max(levels) + margin)
    before = np.arange(1, clipped.size)
    after = clipped.size - before
    sums = np.cumsum(clipped)
    gap = sums[:-1] / before - (sums[-1] - sums[:-1]) / after
    least = min(LEAST_BETWEEN, index - first)
    fits = np.where((before >= least) & (after >= LEAST_AFTER), gap**2 * before * after, -1.0)
    return first + int(before[np.argmax(fits)])


def _standing(values: Array, found: Sequence[Found]) -> list[Found]:
    """Without the changes that all runs together no longer show, the weakest dropped first."""
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
    return float(shift / max(error, 1e-12) / stats.t.isf(KEPT_P_VALUE / 2, degrees))
