"""Models a training step by node count: the node's own part plus the time that the exchange adds.

A node's own part takes the same time on any number of nodes. The exchange is a ring all-reduce,
minus the part that computing hides; where all of it is hidden, computing could hide even more. A
ring all-reduce takes a latency for each hop plus the transfer time of its bytes (Patarasuk and
Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from batchmark.analysis.scaling.curves import Measured
from batchmark.analysis.scaling.rows import NodesSamples
from batchmark.analysis.scaling.transfers import MIB
from batchmark.core import formatting
from batchmark.core.intervals import Median, interval_of

Draws = NDArray[np.float64]  # the figure itself, then its bootstrap draws; shape (1 + draws,)

MOST_EXCHANGED = 1 - 1e-9  # of a step: some computing must remain
HARDLY = 0.01  # of a step: an exchange that adds less may be hidden altogether
MISS = 0.05  # of an efficiency: a smaller error doesn't matter, however certain


class Ring(NamedTuple):
    latency: Draws  # seconds of a hop
    per_byte: Draws  # seconds of a byte on a link

    def seconds(self, ranks: int, size_bytes: float) -> Draws:
        hops, moved = load(ranks, size_bytes)
        return np.asarray(hops * self.latency + moved * self.per_byte)


def load(ranks: int, size_bytes: float) -> tuple[float, float]:
    """Return a ring all-reduce's number of sequential hops and the bytes that each link carries."""
    return 2.0 * (ranks - 1), 2 * (ranks - 1) / ranks * size_bytes


def fit_ring(loads: Sequence[tuple[float, float]], seconds: Sequence[Draws]) -> Ring | None:
    """Fit a latency and a time per byte, neither below zero, by minimising relative errors.

    Returns None if the loads can't separate the two.
    """
    if not loads:
        return None
    times = np.array(seconds)  # (points, 1 + draws)
    hops, moved = (np.array(one)[:, None] / times for one in zip(*loads, strict=True))
    a, b, c = (hops**2).sum(0), (hops * moved).sum(0), (moved**2).sum(0)
    x, y = hops.sum(0), moved.sum(0)
    apart = a * c - b**2
    if (apart <= 1e-9 * a * c).any():
        return None
    latency, per_byte = (c * x - b * y) / apart, (a * y - b * x) / apart
    both = (latency >= 0) & (per_byte >= 0)
    return Ring(
        np.where(both, latency, np.where(per_byte < 0, x / a, 0.0)),
        np.where(both, per_byte, np.where(latency < 0, y / c, 0.0)),
    )


class Step(NamedTuple):
    """A training step as measured at one node count."""

    nodes: int
    ranks: int
    images: int
    total: Draws
    local: Draws
    exchange: Draws


@dataclass(frozen=True)
class StepModel:
    base: Step
    local: Draws
    ring: Ring
    hidden: Draws
    size_bytes: int
    devices: int
    at_least: bool  # whether more may be hidden
    by_all_reduce: bool  # whether the ring is fitted to all-reduces, not to what they add to steps

    def exchange(self, nodes: int) -> Draws:
        whole = self.ring.seconds(nodes * self.devices, self.size_bytes)
        return np.maximum(whole - self.hidden, 0.0)

    def seconds(self, nodes: int) -> Draws:
        return np.asarray(self.local + self.exchange(nodes))

    def efficiency(self, nodes: int) -> Draws:
        return np.asarray(self.base.total / self.seconds(nodes))


def step_of(one: Measured) -> Step:
    """Build a step. For lack of better data, `local` gets the whole step's relative noise."""
    point, split = one.point, one.point.split
    assert split is not None  # noqa: S101 - checked before
    total = _with_draws(one.median)
    exchange = split.communication_seconds if point.ranks > 1 else 0.0
    exchange = min(exchange, MOST_EXCHANGED * point.seconds.value)
    own = _shuffled(total / total[0], f"{point.nodes}")
    local = (point.seconds.value - exchange) * own if exchange else total
    return Step(point.nodes, point.ranks, point.images, total, local, total - local)


def fit(
    steps: Sequence[Step], exchanges: Sequence[NodesSamples], size_bytes: int, devices: int
) -> StepModel | str:
    """Fit the model, or return why that is impossible. One-node steps don't use the network."""
    remote = [step for step in steps if step.nodes > 1]
    local = np.asarray(np.mean([step.local for step in steps], axis=0))
    fitted = {step.nodes for step in remote}
    used = [one for one in exchanges if one.nodes in fitted]
    by_all_reduce = len({one.parameters.get("mib") for one in used}) > 1
    if by_all_reduce:
        loads = [load(one.ranks, (one.number("mib") or 0) * MIB) for one in used]
        ring = fit_ring(loads, [_with_draws(one.median) for one in used if one.median])
        if ring is None:
            return "all-reduces of one size can't separate latency from bandwidth"
        last = remote[-1]
        hidden, at_least = ring.seconds(last.ranks, size_bytes) - last.exchange, _hides_all(last)
    else:
        if hiding := next(filter(_hides_all, remote), None):
            return (
                "the exchange time is unknown because all-reduces of two sizes were not "
                f"measured, and on {hiding.nodes} nodes it is hidden by computation"
            )
        loads = [load(step.ranks, size_bytes) for step in remote]
        ring = fit_ring(loads, [np.maximum(step.exchange, HARDLY * step.total) for step in remote])
        if ring is None:
            return (
                "all-reduces of two sizes were not measured; without them, separating the "
                "network's latency from its bandwidth requires three node counts"
            )
        hidden, at_least = np.zeros_like(local), False
    return StepModel(steps[0], local, ring, hidden, size_bytes, devices, at_least, by_all_reduce)


def _hides_all(step: Step) -> bool:
    """Check whether computing hides the exchange, leaving at most noise or 1 % of the step."""
    noise = step.total[0] - interval_of(step.total[1:]).low
    return bool(step.exchange[0] <= max(HARDLY * step.total[0], noise))


def misfit(model: StepModel, steps: Sequence[Step]) -> str | None:
    """Return why the model does not fit the steps it was fitted to, or None if it does."""
    for step in steps:
        if _surely_off(step.local / model.local):
            least, most = (find(steps, key=lambda one: one.local[0]) for find in (min, max))
            short, long = (
                f"{formatting.seconds(float(one.local[0]))} per step on {one.nodes}"
                for one in (least, most)
            )
            return (
                f"compute and data take {short} and {long} nodes, but the model assumes that these "
                "times are equal"
            )
    for step in steps:
        off = model.seconds(step.nodes) / step.total
        if step.nodes > 1 and _surely_off(off):
            return (
                f"on {step.nodes} nodes, to which the model was fitted, its step time is "
                f"{formatting.multiple(float(off[0]))} the measured one"
            )
    return None


def _surely_off(ratio: Draws) -> bool:
    ends = interval_of(ratio[1:])
    return abs(ratio[0] - 1) > MISS and not ends.low <= 1 <= ends.high


def _with_draws(median: Median) -> Draws:
    return np.concatenate([[median.value], median.draws()])


def _shuffled(draws: Draws, seed: str) -> Draws:
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    return np.concatenate([draws[:1], rng.permutation(draws[1:])])
