"""Finds level changes in series of logarithms, run by run, as a schedule would.

A window-limited generalised likelihood ratio test (Willsky & Jones, IEEE Trans. Autom. Control 21
(1976) 108; Lai, J. R. Stat. Soc. B 57 (1995) 613): after each run, every earlier run is a candidate
for the first run of a new level. The first candidate with enough evidence (`evidence`) is a change,
and the search continues after it. Finally, changes that later runs do not confirm are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from batchmark.changes.evidence import EVIDENCE, LEAST_AFTER, Candidates, Evidence, Search
from batchmark.changes.noise_model import Array, NoiseDensity, Prior
from batchmark.changes.steps import LevelChange, still_shown

LEAST_WITH_FRESH = 3  # figures on a new level, since fresh jobs are requested if few leave it open
LEAST_LOG_SHIFT = 0.02  # however sure: changes below 2 % are hardly of interest
AT_A_TIME = 32  # series; with more, their tables leave the processor's caches


@dataclass(frozen=True)
class Newest:
    """Evidence that a series' newest figures are at a slower level that isn't a change yet."""

    index: int  # first figure of the level that they speak for most
    gathered: float  # evidence that there is, counted as that of few figures
    log_level: float  # before the newest figure
    noise: NoiseDensity  # about the level, of the one window before the newest figure
    center: float  # of this density, in logs
    correlation: float  # of neighbouring figures; 0 unless there is surely one

    def tail(self, log_value: float) -> float:
        """Return the probability that noise alone produces a figure at least this slow."""
        return float(self.noise.tail(np.array([log_value - self.center]))[0])

    def evidence(self, log_shift: float, logs: Array) -> float:
        """Return this level shift's log likelihood ratio, summed over figures of shape (n,)."""
        about = (logs - self.center)[None, :]
        return float(
            np.sum(self.noise.log_density(about - log_shift) - self.noise.log_density(about))
        )


def search(
    series: Sequence[Array],
    priors: Sequence[Prior] | None = None,
    least_log_shift: float = LEAST_LOG_SHIFT,
    *,
    fresh: Sequence[bool] | None = None,
    evidence: Sequence[float] | None = None,
    hindsight: bool = True,
) -> list[list[LevelChange]]:
    """Find the changes in each series.

    Series are finite logs in run order, each of shape (n,). `fresh` says which series include fresh
    jobs, and `evidence` how much evidence a change in each series needs. Shifts up to
    `least_log_shift` are not changes and, with `hindsight`, neither are those that later runs do
    not confirm.
    """
    searches = chain.from_iterable(_searched(series, priors, fresh, evidence, least_log_shift))
    return [still_shown(one.values, one.found) if hindsight else one.found for one in searches]


def newest(
    series: Sequence[Array],
    priors: Sequence[Prior],
    fresh: Sequence[bool],
    evidence: Sequence[float],
) -> list[Newest | None]:
    """Return the evidence in each series' newest figures; None if none could begin a new level.

    The arguments are those of `search`.
    """
    searched = _searched(series, priors, fresh, evidence, LEAST_LOG_SHIFT)
    return list(chain.from_iterable(map(_newest_figures, searched)))


def _searched(
    series: Sequence[Array],
    priors: Sequence[Prior] | None,
    fresh: Sequence[bool] | None,
    evidence: Sequence[float] | None,
    least_log_shift: float,
) -> Iterator[list[Search]]:
    """Search the series in batches."""
    known = priors or [Prior()] * len(series)
    least = [LEAST_WITH_FRESH if one else LEAST_AFTER for one in fresh or [False] * len(series)]
    needed = evidence or [EVIDENCE] * len(series)
    searches = [Search(*one) for one in zip(series, known, least, needed, strict=True)]
    for first in range(0, len(searches), AT_A_TIME):
        some = searches[first : first + AT_A_TIME]
        going = some
        while going := [one for one in going if one.candidates.size]:
            going = _next_changes(going, least_log_shift)
        yield some


def _newest_figures(searches: Sequence[Search]) -> list[Newest | None]:
    candidates = Candidates.of(searches, [one.newest for one in searches])
    evidence, correlation = Evidence.of(candidates), candidates.correlation
    found: list[Newest | None] = []
    for place, one in enumerate(searches):
        rows = np.flatnonzero(candidates.own == place)
        if not rows.size:
            found.append(None)
            continue
        lengths = one.values.size - candidates.index[rows]
        weights = np.where(candidates.up[rows], evidence.weight[rows, lengths - 1], 0.0)
        most, last = int(np.argmax(weights)), int(rows[-1])
        found.append(
            Newest(
                int(candidates.index[rows[most]]),
                float(weights[most]) * one.evidence,
                float(candidates.center[last] + candidates.noise.mean[last]) + one.base,
                candidates.noise[rows[-1:]],
                float(candidates.center[last]) + one.base,
                float(correlation[last]),
            )
        )
    return found


def _next_changes(searches: Sequence[Search], least_log_shift: float) -> list[Search]:
    """Find each series' next change; return the searches that found one."""
    candidates = Candidates.of(searches, [one.candidates for one in searches]).worth_a_look()
    if not candidates.index.size:
        return []
    evidence = Evidence.of(candidates)
    found = []
    for place in np.unique(candidates.own):
        one = searches[place]
        for row, length in evidence.enough(np.flatnonzero(candidates.own == place)):
            shift = evidence.shift(row, length)
            if (
                abs(shift) > least_log_shift
                and not evidence.is_partial(row, length)
                and evidence.tempered(row, length) >= 1
            ):
                index = int(candidates.index[row])
                one.take(index, index + length, shift, float(candidates.noise.scale[row]))
                found.append(one)
                break
    return found
