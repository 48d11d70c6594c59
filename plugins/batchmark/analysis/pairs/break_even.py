"""Finds the size from which one cost stays below another, given both at a few sizes.

Sizes and times are on logarithmic axes. Between two measured sizes, a curve is only known to stay
within a band: between the chord and the extensions of the neighbouring segments. Sums of powers of
the size, such as a + b * n**k, are convex there and never leave that band. The interval contains
every size at which the two curves could be equal.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import compress, pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from batchmark.core.intervals import ENDS, Median, no_interval
from batchmark.core.record import Record
from batchmark_job.result.confidence import CONFIDENCE_TEXT

Array = NDArray[np.float64]
STEPS = 32  # of the grid between two measured sizes
DRAWS_USED = 1_000  # of the bootstrap's 4,000, for time and memory

Leader = Literal["gpu", "cpu"]
BreakEvenOutcome = Literal["crossover", "gpu_ahead", "cpu_ahead", "undecided"]
BY_SIGN: dict[int, BreakEvenOutcome] = {1: "gpu_ahead", -1: "cpu_ahead", 0: "undecided"}


class BreakEven(Record):
    """The point where two curves cross, as far as the measured sizes can tell.

    With the outcome "crossover", each side is clearly ahead at some size, and a missing end of the
    interval is outside the measured sizes. If only one side is clearly ahead anywhere, the outcome
    names that side. Without an interval the outcome is undecided, even if there is a best guess.
    """

    outcome: BreakEvenOutcome
    ahead_above: Leader = Field(
        default="gpu", description="side that stays ahead from `size` upward"
    )
    size: float | None = Field(
        default=None,
        description="best estimate, even if the outcome is undecided because there is no "
        "interval; null if it is outside the measured range",
    )
    low: float | None = Field(
        default=None, description=f"lower end of the {CONFIDENCE_TEXT} interval"
    )
    high: float | None = Field(
        default=None, description=f"upper end of the {CONFIDENCE_TEXT} interval"
    )
    interval_reason: str | None = Field(default=None, description="why there is no interval")
    monotonic: bool = Field(default=True, description="false if the lead changes more than once")
    gpu_ahead: tuple[float, ...] = Field(
        default=(), description="sizes at which the GPU is clearly ahead"
    )
    cpu_ahead: tuple[float, ...] = Field(
        default=(), description="sizes at which the CPU is clearly ahead"
    )
    undecided: tuple[float, ...] = ()


class Curve(NamedTuple):
    """Cost by size: `values` has shape (sizes,); bootstrap `draws` has (sizes, n) or is None."""

    values: Array
    draws: Array | None
    reason: str | None = None  # why there are no draws

    @classmethod
    def of(cls, medians: Sequence[Median]) -> Curve:
        values = np.array([median.value for median in medians])
        if reason := no_interval(*medians):
            return cls(values, None, reason)
        return cls(values, np.array([median.draws() for median in medians]))

    def scaled(self, factor: float) -> Curve:
        draws = None if self.draws is None else self.draws * factor
        return self._replace(values=self.values * factor, draws=draws)

    def with_noise(self, deviations: Sequence[float], *, seed: str) -> Curve:
        """Add noise with these relative deviations to the draws, moving all sizes together."""
        if self.draws is None:
            return self
        rng = np.random.default_rng(zlib.crc32(seed.encode()))
        spread = np.outer(deviations, rng.standard_normal(self.draws.shape[1]))
        return self._replace(draws=self.draws * np.exp(spread))


def break_even(
    sizes: Sequence[float], gpu: Curve, cpu: Curve, verdicts: Sequence[int] | None = None
) -> BreakEven:
    """Find the size from which the curve that is cheaper at the largest sizes stays cheaper.

    Args:
        sizes: at least two positive sizes in ascending order.
        gpu, cpu: costs at these sizes, in the same unit.
        verdicts: for each size, 1 if the GPU is clearly ahead, -1 if the CPU is, else 0. If None,
            the intervals of the curves' draws decide.

    Raises:
        ValueError: there are fewer than two sizes, or they are not ascending.
    """
    x = np.log(np.asarray(sizes, dtype=float))
    if len(x) < 2 or np.any(np.diff(x) <= 0):
        raise ValueError(
            f"a crossover requires at least two sizes in ascending order, got {list(sizes)}"
        )
    if gpu.draws is None or cpu.draws is None:
        leader, ahead, behind = _ordered(gpu, cpu, swapped=bool(cpu.values[-1] < gpu.values[-1]))
        return BreakEven(
            outcome="undecided",
            ahead_above=leader,
            size=_guess(x, ahead, behind),
            interval_reason=gpu.reason or cpu.reason,
            undecided=tuple(sizes),
        )
    signs = _signs(gpu.draws, cpu.draws) if verdicts is None else np.sign(verdicts)
    decided = signs[signs != 0]
    by_lead = {lead: tuple(compress(sizes, signs == sign)) for sign, lead in BY_SIGN.items()}
    if len(leads := np.unique(decided)) < 2:
        return BreakEven(outcome=BY_SIGN[int(leads.sum())], **by_lead)
    leader, ahead, behind = _ordered(gpu, cpu, swapped=bool(decided[-1] < 0))
    first, last = _ends(x, ahead, behind)
    found = not (first is last is None)
    return BreakEven(
        outcome="crossover" if found else "undecided",
        ahead_above=leader,
        size=_guess(x, ahead, behind) if found else None,
        low=first,
        high=last,
        monotonic=int(np.count_nonzero(np.diff(decided))) <= 1,
        **by_lead,
    )


def _ordered(gpu: Curve, cpu: Curve, *, swapped: bool) -> tuple[Leader, Curve, Curve]:
    """Return the side that leads above the crossover, its curve and the other curve."""
    return ("cpu", cpu, gpu) if swapped else ("gpu", gpu, cpu)


def _signs(gpu: Array, cpu: Array) -> Array:
    """For each size, return 1 if the GPU's draws are clearly cheaper, -1 if the CPU's, else 0."""
    low, high = _quantiles(np.log(cpu / gpu))
    return np.asarray(np.sign(low) * (np.sign(low) == np.sign(high)))


def _guess(x: Array, gpu: Curve, cpu: Curve) -> float | None:
    """Return the size where the GPU's lead turns positive for good, using the bands' midpoints."""
    at = _grid(x)
    gpu_low, gpu_high = _band(x, np.log(gpu.values), at)
    cpu_low, cpu_high = _band(x, np.log(cpu.values), at)
    return _last_rise(at, (cpu_low + cpu_high - gpu_low - gpu_high) / 2)


def _ends(x: Array, gpu: Curve, cpu: Curve) -> tuple[float | None, float | None]:
    """Return the ends of the crossover's interval, computed from the draws."""
    if gpu.draws is None or cpu.draws is None:
        return None, None
    at = _grid(x)
    gpu_low, gpu_high = _band(x, np.log(gpu.draws[:, :DRAWS_USED].T), at)
    cpu_low, cpu_high = _band(x, np.log(cpu.draws[:, :DRAWS_USED].T), at)
    lowest, _ = _quantiles((cpu_low - gpu_high).T)
    _, highest = _quantiles((cpu_high - gpu_low).T)
    return _last_rise(at, highest), _last_rise(at, lowest)


def _grid(x: Array) -> Array:
    return np.unique(np.concatenate([np.linspace(*ends, STEPS + 1) for ends in pairwise(x)]))


def _band(x: Array, y: Array, at: Array) -> tuple[Array, Array]:
    """Return lower and upper bounds at `at` on curves through (x, y); y has shape (..., sizes)."""
    left = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(x) - 2)
    slopes = np.diff(y, axis=-1) / np.diff(x)
    from_left, from_right = at - x[left], at - x[left + 1]
    chord = y[..., left] + slopes[..., left] * from_left
    if len(x) == 2:  # too few points to tell the curvature
        inside = (from_left > 0) & (from_right < 0)
        low, high = y.min(axis=-1, keepdims=True), y.max(axis=-1, keepdims=True)
        return np.where(inside, low, chord), np.where(inside, high, chord)
    # Beyond the ends, slopes keep changing as they last did, but times never fall with size.
    before = np.maximum(2 * slopes[..., :1] - slopes[..., 1:2], 0)
    after = 2 * slopes[..., -1:] - slopes[..., -2:-1]
    slopes = np.concatenate([before, slopes, after], axis=-1)
    ahead = y[..., left] + slopes[..., left] * from_left - chord
    back = y[..., left + 1] + slopes[..., left + 2] * from_right - chord
    # If both extensions are on the same side of the chord, the nearer one is the limit.
    nearer = np.where(np.abs(ahead) < np.abs(back), ahead, back)
    one_side = ahead * back >= 0
    low = np.where(one_side, nearer, np.minimum(ahead, back))
    high = np.where(one_side, nearer, np.maximum(ahead, back))
    return chord + np.minimum(low, 0), chord + np.maximum(high, 0)


def _last_rise(at: Array, lead: Array) -> float | None:
    """Return the size where the lead turns positive for good, or None if it is out of range."""
    behind = np.flatnonzero(lead < 0)
    if not behind.size or behind[-1] == len(at) - 1:
        return None
    i = behind[-1]
    share = lead[i] / (lead[i] - lead[i + 1])
    return float(np.exp(at[i] + share * (at[i + 1] - at[i])))


def _quantiles(draws: Array) -> tuple[Array, Array]:
    low, high = np.quantile(draws, ENDS, axis=-1)
    return low, high
