"""How long summing over a ring of ranks takes: a latency at each hop, and the time of its bytes.

Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Draws = NDArray[np.float64]  # the figure itself, then its bootstrap draws; shape (1 + draws,)


class Ring(NamedTuple):
    latency: Draws  # seconds of a hop
    per_byte: Draws  # seconds of a byte on a link

    def seconds(self, ranks: int, size_bytes: float) -> Draws:
        hops, moved = load(ranks, size_bytes)
        return np.asarray(hops * self.latency + moved * self.per_byte)


def load(ranks: int, size_bytes: float) -> tuple[float, float]:
    """The hops one after the other, and the bytes that each link carries."""
    return 2.0 * (ranks - 1), 2 * (ranks - 1) / ranks * size_bytes


def fit_ring(loads: Sequence[tuple[float, float]], seconds: Sequence[Draws]) -> Ring | None:
    """The latency and the time of a byte that fit best, by relative errors, neither below zero.

    None where the loads can't tell the two apart.
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
