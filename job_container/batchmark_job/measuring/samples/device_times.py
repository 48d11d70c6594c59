"""What a call takes of the GPU alone, and until its caller has the result.

A sample lies between the two: on an idle GPU it holds the launches, but no wait of the host's.
"""

from __future__ import annotations

import contextlib
import statistics
import time

import torch

from batchmark_job.measuring.samples.sampling import CudaEventTimer, MonotonicTimer, Rotation

ROUNDS = 5
CALLS = 20  # in the queue at a time, at most
LEAST_CALLS = 2  # where many kernels fill the queue: it takes about a thousand
LATENCIES = 20
ROUND_SECONDS = 0.02  # of kernels, about
FASTEST_CLOCK_HZ = 3e9  # of any GPU: at slower ones the queue waits longer
ASLEEP = 2.0  # times what it takes to fill the queue
LONGER = 4.0  # times that at the second try


def time_device(rotation: Rotation, call_seconds: float) -> dict[str, float]:
    """Median seconds by the fields of Phases; the kernels' are left out where a queue ran empty.

    Kernels are timed as nvbench does it: the GPU is kept busy until all calls of a round are in its
    queue, so that none waits for the host. A call that itself waits for the GPU can't be queued.
    """
    calls = max(min(CALLS, int(ROUND_SECONDS / call_seconds)), LEAST_CALLS)
    timer = MonotonicTimer("cuda")
    latencies = [timer.seconds(rotation.take())[0] for _ in range(LATENCIES)]
    found = {"latency_seconds": statistics.median(latencies)}
    with contextlib.suppress(RuntimeError, _RanEmptyError):
        rounds = [_queued(rotation, calls) for _ in range(ROUNDS)]
        found["kernel_seconds"] = max(
            statistics.median(rounds), CudaEventTimer.clock_resolution_seconds
        )
    return found


class _RanEmptyError(Exception):
    """The GPU was done before the host was."""


def _queued(rotation: Rotation, calls: int) -> float:
    """Seconds of the GPU for each of several calls that waited for it together."""
    began = time.perf_counter()
    for _ in range(calls):
        rotation.take()()
    filling = time.perf_counter() - began
    torch.cuda.synchronize()
    for queued, asleep in ((calls, ASLEEP), (LEAST_CALLS, LONGER * ASLEEP)):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda._sleep(int(asleep * filling * FASTEST_CLOCK_HZ))  # type: ignore[no-untyped-call]
        start.record()
        for _ in range(queued):
            rotation.take()()
        end.record()
        in_time = not start.query()  # type: ignore[no-untyped-call]
        end.synchronize()
        if in_time:
            return float(start.elapsed_time(end)) / 1e3 / queued
    raise _RanEmptyError
