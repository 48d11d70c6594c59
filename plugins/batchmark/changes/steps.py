"""Classifies a search's steps as the ends of bumps, parts of drifts, or lasting changes.

Constants marked as tuned were chosen in the simulation of docs/regressions.md ("How good it is").
The others are judgment calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from batchmark.changes.noise_model import CLIP, WINDOW, Array, NoiseDensity

BUMP_RUNS = 15  # a level that is over sooner was noise with a memory ...
BACK = 0.35  # ... if what is left of its shift is less than this share of it
RAMP_RUNS = 30  # before a step, in which a drift may have begun
KEPT_P_VALUE = 5e-4  # of a change once all runs on either side are known; tuned
SETTLED_AFTER = 10  # runs on the new level; a newer change is not dropped yet
LEAST_ERROR = 1e-12  # of a mean, so that equal runs divide by something


@dataclass(frozen=True)
class LevelChange:
    """The start of a level, or of a drift (a level that moves a little with each run)."""

    index: int  # first run of the new level
    shown_after: int  # number of runs of the series after which the change showed, at most
    drift: float | None = None  # change of the logs from run to run; None for a step
    common: bool = False  # shown by all rows of the machine together, not by this one


class Step(NamedTuple):
    """A step in a series, and the level before it."""

    first: int  # run of the new level
    shift: float
    start: int  # first run of the level before
    base: float  # its logs minus those of the first level


def is_back(last: Step, step: Step) -> bool:
    """Check whether a step ends a short bump by returning to the old level."""
    return step.first - last.first <= BUMP_RUNS and abs(last.shift + step.shift) < BACK * abs(
        last.shift
    )


def drift_of(values: Array, last: Step, step: Step, scale: float) -> float | None:
    """Return the logs' slope if a ramp explains them better than two steps, otherwise None.

    Uses Schwarz's criterion, as two steps have two more parameters than a ramp.
    """
    if last.shift * step.shift < 0:
        return None
    start = max(last.start, last.first - RAMP_RUNS)
    first, second = last.first - start, step.first - start
    levels = np.split(values[start:], [first, second])
    medians = [np.median(level) for level in levels]
    low, high = min(medians) - CLIP * scale, max(medians) + CLIP * scale
    by_steps = sum(
        float(np.sum((clipped - clipped.mean()) ** 2))
        for clipped in (np.clip(level, low, high) for level in levels)
    )
    clipped = np.clip(values[start:], low, high)
    runs = np.arange(clipped.size)
    ramps = [
        np.linalg.lstsq(np.stack([np.ones(runs.size), np.maximum(runs - bend, 0)], axis=1), clipped)
        for bend in range(0, first + 1, 3)
    ]
    solution, squares, *_ = min(ramps, key=lambda ramp: float(ramp[1][0]))
    allowed = by_steps * np.exp(2 * np.log(runs.size) / runs.size)
    return float(solution[1]) if squares[0] <= allowed else None


def still_shown(values: Array, found: Sequence[LevelChange]) -> list[LevelChange]:
    """Keep the changes that all runs together still support, dropping the weakest first."""
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
    """Return Student's t between two levels, with outliers clipped, divided by the t required.

    Infinite if the new level is too recent to be dropped.
    """
    if after.size < SETTLED_AFTER:
        return np.inf
    degrees = before.size + after.size - 2
    means, squares = [], 0.0
    for level in (before, after):
        noise = NoiseDensity.of(level[None, :], np.zeros(1), np.zeros(1))
        means.append(float(noise.center[0] + noise.mean[0]))
        squares += float(np.sum(noise.clipped**2))
    error = np.sqrt(squares / degrees * (1 / before.size + 1 / after.size))
    t = abs(means[1] - means[0]) / max(error, LEAST_ERROR)
    return float(t / -scipy.special.stdtrit(degrees, KEPT_P_VALUE / 2))
