"""Times calls that all ranks make together, by the device's own clock."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch

from batchmark_job.distributed.ranks.world import World
from batchmark_job.measuring.samples.sampling import no_garbage_collection

ROUNDS = 10  # rounds that share the time; after each the ranks agree whether to continue
LEAST_SAMPLES = 3  # the fewest whose median ignores an outlier; may exceed max_seconds


class Stopwatch:
    """Records marks in device time; the host waits for the device only when marks are read."""

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
        """Return the seconds between consecutive marks."""
        if not self._cuda:
            return [end - start for start, end in pairwise(self._marks)]
        for event in self._marks:
            event.synchronize()
        return [start.elapsed_time(end) / 1e3 for start, end in pairwise(self._marks)]


class Timed(NamedTuple):
    """Call durations, over all ranks and on this rank alone."""

    samples: list[float]  # seconds per call; they add up to the elapsed time of all ranks
    starts: list[float]  # of each sample, by this rank's own clock
    end: float
    laps: list[list[float]]  # this rank's seconds, by call

    def all_starts(self) -> tuple[float, ...]:
        return (*self.starts, self.end)

    def mean_laps(self) -> list[float]:
        return [statistics.fmean(lap) for lap in zip(*self.laps, strict=True)]


def time_calls(
    world: World,
    call: Callable[[Stopwatch], None],
    count: int,
    max_seconds: float,
    expected_seconds: float,
    window: int = 1,
) -> Timed:
    """Time calls in rounds, during which no rank does anything else.

    A sample ends when the last rank finishes its calls, and starts where the previous one ended.
    Taking the slowest rank's time per call instead would count a delay twice if it holds up first
    one rank and then another.

    Args:
        call: marks the end of each of its laps; the number of laps must not change.
        count: samples to take.
        max_seconds: no round starts after this time, once there are LEAST_SAMPLES samples.
        expected_seconds: expected duration of a call; must be the same on all ranks.
        window: calls per sample; a sample is their mean.
    """
    timed = Timed([], [], time.perf_counter(), [])
    spent = 0.0
    each_round = max(1, int(max_seconds / ROUNDS / max(window * expected_seconds, 1e-9)))
    with no_garbage_collection():
        while len(timed.samples) < count and (
            spent < max_seconds or len(timed.samples) < LEAST_SAMPLES
        ):
            calls = window * min(each_round, count - len(timed.samples))
            world.wait_for_all()
            stopwatch = Stopwatch(world.device)
            began = time.perf_counter()
            stopwatch.mark()
            for _ in range(calls):
                call(stopwatch)
            found = stopwatch.seconds()
            each = len(found) // calls
            laps = [found[start : start + each] for start in range(0, len(found), each)]
            own_ends = [*accumulate(map(sum, laps), initial=0.0)][::window]
            ends = world.largest(own_ends)
            timed.samples.extend((end - start) / window for start, end in pairwise(ends))
            timed.starts.extend(began + end for end in own_ends[:-1])
            timed.laps.extend(laps)
            timed = timed._replace(end=began + own_ends[-1])
            spent += ends[-1]
    return timed


def longest_seconds(world: World, call: Callable[[Stopwatch], None]) -> float:
    """Return how long one call takes on the slowest rank, according to the host's clock."""
    world.wait_for_all()
    began = time.perf_counter()
    stopwatch = Stopwatch(world.device)
    call(stopwatch)
    stopwatch.seconds()  # also waits for the device
    return world.largest([time.perf_counter() - began])[0]
