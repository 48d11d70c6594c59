"""Derives throughput, step times and gaps from the times at which replicas completed steps.

Times are from time.perf_counter(), which uses the same clock in all processes on a machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np


class Window(NamedTuple):
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Steps:
    """A replica's consecutive steps: when the first one began, and when each one ended."""

    began: float
    ends: Sequence[float]

    def within(self, window: Window) -> float:
        """Count the steps in a window; steps that are only partly inside it count as fractions."""
        moments = [self.began, *self.ends]
        done = np.interp(window, moments, np.arange(len(moments)))
        return float(done[1] - done[0])

    def whole_within(self, window: Window) -> int:
        """Count the steps that ended in a window."""
        return len(self.seconds_within(window))

    def seconds_within(self, window: Window) -> np.ndarray:
        """Return the durations of the steps that ended in a window."""
        ends = np.asarray(self.ends)
        seconds = np.diff([self.began, *self.ends])
        return seconds[(ends > window.start) & (ends <= window.end)]

    def longest_gap(self, window: Window) -> float:
        """Return the longest time in a window during which no step ended."""
        inside = [end for end in self.ends if window.start < end < window.end]
        return float(np.diff([window.start, *inside, window.end]).max())


def split(window: Window, count: int) -> list[Window]:
    """Split a window into `count` windows of equal length."""
    edges = np.linspace(window.start, window.end, count + 1).tolist()
    return [Window(*pair) for pair in pairwise(edges)]


def seconds_per_step(replicas: Sequence[Steps], window: Window) -> float | None:
    """Return the window's length divided by all replicas' steps in it, or None without steps."""
    made = sum(steps.within(window) for steps in replicas)
    return window.seconds / made if made else None
