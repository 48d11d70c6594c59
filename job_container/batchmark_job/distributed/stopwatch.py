"""Calls that all ranks make together, timed one by one on the device."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch

from batchmark_job.distributed.world import World
from batchmark_job.measuring.sampling import no_garbage_collection

ROUNDS = 10  # that share the time; after each the ranks agree whether to go on
LEAST_CALLS = 3


class Stopwatch:
    """Marks in the device's time; the host waits for none of them until they are read."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._marks: list[Any] = []

    def mark(self) -> None:
        if not self._cuda:
            self._marks.append(time.perf_counter())
            return
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        self._marks.append(event)

    def seconds(self) -> list[float]:
        """Between each mark and the next."""
        if not self._cuda:
            return [end - start for start, end in pairwise(self._marks)]
        for event in self._marks:
            event.synchronize()
        return [start.elapsed_time(end) / 1e3 for start, end in pairwise(self._marks)]


class Timed(NamedTuple):
    """Of each call: this rank's seconds of each lap, and when it began by its own clock."""

    laps: list[list[float]]
    starts: list[float]
    end: float

    def samples(self, world: World) -> tuple[float, ...]:
        """The longest of all ranks'."""
        return tuple(world.largest([sum(laps) for laps in self.laps]))

    def all_starts(self) -> tuple[float, ...]:
        return (*self.starts, self.end)


def time_calls(
    world: World,
    call: Callable[[Stopwatch], None],
    count: int,
    max_seconds: float,
    expected_seconds: float,
) -> Timed:
    """Make calls in rounds, within which nothing but the calls happens on any rank.

    Args:
        call: that marks the end of each of its laps, always as many.
        max_seconds: after which no round begins, once there are a few calls.
        expected_seconds: a call's, the same on all ranks.
    """
    laps: list[list[float]] = []
    starts: list[float] = []
    end = time.perf_counter()
    spent = 0.0
    each_round = max(1, int(max_seconds / ROUNDS / max(expected_seconds, 1e-9)))
    with no_garbage_collection():
        while len(laps) < count and (spent < max_seconds or len(laps) < LEAST_CALLS):
            calls = min(each_round, count - len(laps))
            world.wait_for_all()
            stopwatch = Stopwatch(world.device)
            began = time.perf_counter()
            stopwatch.mark()
            for _ in range(calls):
                call(stopwatch)
            found = stopwatch.seconds()
            each = len(found) // calls
            fresh = [found[start : start + each] for start in range(0, len(found), each)]
            *places, end = accumulate(map(sum, fresh), initial=began)
            laps += fresh
            starts += places
            (spent,) = world.largest([spent + end - began])
    return Timed(laps, starts, end)


def longest_seconds(world: World, call: Callable[[Stopwatch], None]) -> float:
    """One call's, of all ranks, by the host's clock."""
    world.wait_for_all()
    began = time.perf_counter()
    stopwatch = Stopwatch(world.device)
    call(stopwatch)
    stopwatch.seconds()  # which waits for the device
    return world.largest([time.perf_counter() - began])[0]
