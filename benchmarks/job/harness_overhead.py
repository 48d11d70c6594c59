"""Checks that measuring adds less than 2 % to the measured time, for calls of 1 to 30 ms.

The same prepared calls run alternately in a bare loop, timed as a whole, and under the job's own
sampling, with the monitor and telemetry running as in a job. Two figures are printed per workload
and size: the time that sampling spends between calls, relative to the calls' own time; and a call's
sampled time divided by its time in the surrounding bare loops. Few blocks contain a telemetry
reading, so telemetry's share of the time is printed separately. Exits with 1 unless all figures
show an overhead below 2 %.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from batchmark_job.machine import fingerprint
from batchmark_job.machine.conditions import Monitor
from batchmark_job.machine.telemetry import PERIOD_SECONDS, Telemetry, meters_for
from batchmark_job.machine.threads import set_threads
from batchmark_job.measuring.entry import find_candidates, input_sets
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.samples.sample_statistics import MedianInterval, median_interval
from batchmark_job.measuring.samples.sampling import (
    MonotonicTimer,
    Rotation,
    no_garbage_collection,
    sample,
)
from batchmark_job.workloads.builtin import WORKLOADS
from batchmark_job.workloads.tensors import Call

ALLOWED = 0.02  # below the 3 % from which a change counts (docs/regressions.md)
CALL_SECONDS = (0.001, 0.003, 0.01, 0.03)  # longer calls would only dilute the overhead
BLOCK_SECONDS = 0.1  # one period of the monitor, and short: a round's blocks see the same load
FEWEST_ROUNDS = 6  # minimum for an interval
READINGS = 20  # judgment: a few slow ones don't move their median
SETTLING_CALLS = 3  # a block has at least as many calls
FIRST_SIZE = 512  # a guess, from which `size_for` needs two steps
GROWTH = {"matmul": 3, "gaussian_blur": 2}  # exponent of a call's time in the size


class Overhead(NamedTuple):
    between_calls: float  # relative to the calls' own time
    ratio: MedianInterval  # sampled over bare, across the rounds

    @property
    def shown(self) -> bool:
        return self.between_calls < ALLOWED and self.ratio.high < 1 + ALLOWED


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--threads",
        type=int,
        default=fingerprint.usable_threads(),
        help="number of CPU threads (default: all available)",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=90,
        help=f"rounds per size (at least {FEWEST_ROUNDS}; default: 90)",
    )
    arguments = parser.parse_args()
    if arguments.rounds < FEWEST_ROUNDS:
        parser.error(f"--rounds {arguments.rounds} is too few; the minimum is {FEWEST_ROUNDS}")
    telemetry = telemetry_share(arguments.threads)
    shown = telemetry < ALLOWED
    print(f"telemetry: {telemetry:.3%} of the time")
    print("workload                   a call   between calls   sampled / bare (95 % interval)")
    for name in ("matmul", "gaussian_blur"):
        for seconds in CALL_SECONDS:
            size = size_for(name, seconds, arguments.threads)
            calls = prepared_calls(name, size, arguments.threads)
            with no_garbage_collection():
                found = overhead(calls, arguments.rounds, arguments.threads)
            shown = shown and found.shown
            print(
                f"{f'{name} {size}':<24} {median_seconds(calls) * 1e3:6.2f} ms"
                f"   {found.between_calls:13.3%}   {found.ratio.median:.4f} "
                f"({found.ratio.low:.4f} to {found.ratio.high:.4f})"
                f"{'' if found.shown else '  NOT SHOWN'}",
                flush=True,
            )
    if not shown:
        print(
            f"could not show that the overhead is below {ALLOWED:.0%}; if the machine is busy, "
            "increase --rounds"
        )
    return 0 if shown else 1


def telemetry_share(threads: int) -> float:
    """Return the share of time spent on telemetry readings."""
    meters = meters_for(threads, lambda: (0.0, 0), None)
    took = []
    for _ in range(READINGS):
        start = time.perf_counter()
        for meter in meters:
            meter.read()
        took.append(time.perf_counter() - start)
    return statistics.median(took) / PERIOD_SECONDS


def overhead(calls: list[Call], rounds: int, threads: int) -> Overhead:
    """Measure the overhead in rounds of four blocks: bare, sampled, sampled, bare.

    Every block makes the same calls, because a call's time can depend on its input's address.
    """
    count = max(3, round(BLOCK_SECONDS / median_seconds(calls)))
    monitor = Monitor("cpu")
    ratios: list[float] = []
    between: list[float] = []
    for _ in range(rounds):
        before = bare_seconds(Rotation(calls), count)
        pair = [sampled_seconds(Rotation(calls), count, monitor, threads) for _ in range(2)]
        after = bare_seconds(Rotation(calls), count)
        ratios.append(sum(seconds for seconds, _ in pair) / (before + after))
        between.extend(share for _, share in pair)
    interval = median_interval(ratios)
    assert interval is not None  # noqa: S101
    return Overhead(statistics.median(between), interval)


def settle(rotation: Rotation) -> None:
    """Make untimed calls to evict earlier blocks' data from the caches."""
    for _ in range(SETTLING_CALLS):
        rotation.take()()


def bare_seconds(rotation: Rotation, count: int) -> float:
    """Return a call's mean seconds in a loop without sampling."""
    settle(rotation)
    calls = [rotation.take() for _ in range(count)]
    start = time.perf_counter()
    for call in calls:
        call()
    return (time.perf_counter() - start) / count


def sampled_seconds(
    rotation: Rotation, count: int, monitor: Monitor, threads: int
) -> tuple[float, float]:
    """Return a sampled call's mean seconds, and the time between calls relative to call time."""
    # The block is longer than a tenth of max_seconds and shorter than ten times it, so exactly
    # `count` samples are taken, with no unrecorded calls between them.
    limits = RowLimits(count, max_seconds=5 * BLOCK_SECONDS, precision=0.0, minimum_samples=count)
    samples: list[float] = []
    telemetry = Telemetry(meters_for(threads, lambda: (0.0, 0), None), None, "benchmark")
    telemetry.start()
    monitor.start()
    settle(rotation)
    sampled = sample(rotation, MonotonicTimer("cpu"), limits, samples)
    monitor.stop()
    telemetry.stop()
    return sum(samples) / count, sampled.seconds / sum(samples) - 1


def prepared_calls(name: str, size: int, threads: int) -> list[Call]:
    """Prepare one call per input set for the workload's first CPU implementation, in float32."""
    workload = WORKLOADS[name]
    given = {"size": size}
    parameters = {axis.name: given.get(axis.name, axis.default or 1) for axis in workload.axes}
    problem = Problem(workload, parameters, "float32", "cpu")
    cache_bytes = fingerprint.last_level_cache_bytes()
    sets = input_sets(problem, find_candidates(problem, (threads,))[:1], cache_bytes)
    set_threads(threads)
    inputs = map(problem.inputs, range(sets))
    implementation = problem.implementations()[0]
    return list(implementation.prepare_each(map(implementation.arrange, inputs)))


def size_for(name: str, seconds: float, threads: int) -> int:
    """Find the size at which a call takes about `seconds`."""
    size = FIRST_SIZE
    for _ in range(2):
        took = min(call_seconds(prepared_calls(name, size, threads)))
        size = max(16, round(size * (seconds / took) ** (1 / GROWTH[name])))
    return size


def median_seconds(calls: Sequence[Call]) -> float:
    return statistics.median(call_seconds(calls))


def call_seconds(calls: Sequence[Call], count: int = 15) -> list[float]:
    rotation, timer = Rotation(calls), MonotonicTimer("cpu")
    return [timer.seconds(rotation.take())[0] for _ in range(count)]


if __name__ == "__main__":
    sys.exit(main())
