"""Shows that a workload slowed down by 3, 5 and 10 % is measured as just that much slower.

A real call is compared with itself followed by a busy-wait of known length, in rounds of one job
each whose order changes from round to round. Prints the ratio of the medians with its 95 % interval
beside the factor injected. A 95 % interval misses the truth now and then, so a factor that is
missed is run once more, with twice the rounds. Exits with 1 if it is missed again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from batchmark.analysis.judging.speedup import ratio
from batchmark.core.intervals import Median
from batchmark_job.machine import fingerprint
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.samples.sampling import (
    MonotonicTimer,
    Rotation,
    no_garbage_collection,
    sample,
    warm_up,
)
from benchmarks.job.prepared_calls import median_seconds, prepared_calls, size_for

if TYPE_CHECKING:
    from batchmark_job.workloads.base import Call

INJECTED = (0.03, 0.05, 0.10)
CALL_SECONDS = 0.005


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default="matmul", choices=("matmul", "gaussian_blur"))
    parser.add_argument(
        "--threads", type=int, default=fingerprint.usable_threads(), help="default: all usable"
    )
    parser.add_argument("--rounds", type=int, default=10, help="jobs of each kind (default: 10)")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a job (default: 0.5)")
    arguments = parser.parse_args()
    size = size_for(arguments.workload, CALL_SECONDS, arguments.threads)
    calls = prepared_calls(arguments.workload, size, arguments.threads)
    print(f"{arguments.workload} {size} on {arguments.threads} threads")
    missed = missed_factors(calls, INJECTED, arguments.rounds, arguments.seconds)
    if missed:
        print("once more, with twice the rounds")
        missed = missed_factors(calls, missed, 2 * arguments.rounds, arguments.seconds)
    return 1 if missed else 0


def missed_factors(
    calls: Sequence[Call], injected: Sequence[float], rounds: int, seconds: float
) -> list[float]:
    """Measure and print all factors in one run; return those outside their interval."""
    base_seconds = median_seconds(calls, count=100)
    waits = [0.0, *(share * base_seconds for share in injected)]
    rotations = [Rotation([followed_by_wait(call, wait) for call in calls]) for wait in waits]
    jobs = run_jobs(rotations, rounds, seconds)
    base, *slowed = (
        Median(samples, seed=str(wait)) for wait, samples in zip(waits, jobs, strict=True)
    )
    missed = []
    for share, wait, median in zip(injected, waits[1:], slowed, strict=True):
        factor = 1 + wait / base.value
        estimate = ratio(median, base)
        assert estimate.interval is not None  # noqa: S101
        found = estimate.interval.low <= factor <= estimate.interval.high
        print(
            f"injected {factor:.4f}: measured {estimate.value:.4f} "
            f"({estimate.interval.low:.4f} to {estimate.interval.high:.4f})"
            f"{'' if found else '  MISSED'}"
        )
        if not found:
            missed.append(share)
    return missed


def run_jobs(rotations: Sequence[Rotation], rounds: int, seconds: float) -> list[list[list[float]]]:
    """Run a job of each kind in every round; return the samples by kind and job."""
    kinds = range(len(rotations))
    jobs: list[list[list[float]]] = [[] for _ in kinds]
    for number in range(rounds):
        order = [(number + step) % len(kinds) for step in kinds]
        for kind in order if number % 2 else reversed(order):
            jobs[kind].append(job_samples(rotations[kind], seconds))
        print(f"round {number + 1} of {rounds}", end="\r", flush=True)
    return jobs


def followed_by_wait(call: Call, seconds: float) -> Call:
    if not seconds:
        return call

    def slower() -> Tensor:
        result = call()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        return result

    return slower


def job_samples(rotation: Rotation, seconds: float) -> list[float]:
    limits = RowLimits(max_seconds=seconds)
    timer = MonotonicTimer("cpu")
    samples: list[float] = []
    with no_garbage_collection():
        warm_up(rotation, timer, limits)
        sample(rotation, timer, limits, samples)
    return samples


if __name__ == "__main__":
    sys.exit(main())
