"""Times a call's kernels, its latency until the host has the result, and data transfers.

A sample's duration lies between the first two times: on an idle GPU, it includes kernel launches
but not the host's wait for the result.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from batchmark_job.measuring.samples.sampling import CudaEventTimer, MonotonicTimer, Rotation
from batchmark_job.workloads.tensors import Tensors

ROUNDS = 5  # judgment: enough for a median; about ROUND_SECONDS each
CALLS = 20  # calls in the queue at a time
LEAST_CALLS = 2  # if calls have many kernels: the queue holds about a thousand
LATENCIES = 20  # judgment: enough for a median; a second at most, as only short calls get here
ROUND_SECONDS = 0.02  # about how long a round's kernels take
FASTEST_CLOCK_HZ = 3e9  # of any GPU: slower ones only keep the queue waiting longer
ASLEEP = 2.0  # times the duration of filling the queue
LONGER = 4.0  # times ASLEEP on the second try
TRANSFER_SAMPLES = 5  # judgment: enough for a median; large copies take long


def time_device(rotation: Rotation, call_seconds: float) -> dict[str, float]:
    """Return a call's median latency and kernel time, keyed by the corresponding Phases fields.

    Kernels are timed as in nvbench: the GPU is kept busy until all calls of a round are queued, so
    that none waits for the host. If the queue runs empty, as it does with calls that themselves
    wait for the GPU, kernel time is omitted.
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
    """Raised if the GPU finishes before the host has queued all calls."""


def _queued(rotation: Rotation, calls: int) -> float:
    """Queue several calls together, and return the GPU time per call."""
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


def time_transfers(
    host_inputs: Tensors, device_inputs: Tensors, output: Tensor
) -> dict[str, float]:
    """Return the median times for allocating and copying, keyed by the corresponding Phases fields.

    Copies are between pinned host memory and the device. Times are left out if memory runs out.
    """
    timer = MonotonicTimer("cuda")

    def allocate() -> list[Tensor]:
        return [torch.empty_like(tensor) for tensor in device_inputs]

    def to_device() -> None:
        for device, host in zip(device_inputs, pinned, strict=True):
            device.copy_(host, non_blocking=True)

    def to_host() -> None:
        target.copy_(output, non_blocking=True)

    def median(step: Callable[[], Any], *, before: Callable[[], None] = lambda: None) -> float:
        taken = []
        for _ in range(1 + TRANSFER_SAMPLES):
            before()
            taken.append(timer.seconds(step)[0])
        return statistics.median(taken[1:])

    found = {}
    with torch.no_grad(), contextlib.suppress(RuntimeError):  # inputs may require gradients
        found["allocate_seconds"] = median(allocate, before=_release_cache)
        pinned = tuple(tensor.pin_memory() for tensor in host_inputs)
        target = torch.empty_like(output, device="cpu").pin_memory()
        found["host_to_device_seconds"] = median(to_device)
        found["device_to_host_seconds"] = median(to_host)
    return found


def _release_cache() -> None:
    with contextlib.suppress(RuntimeError):
        torch.cuda.empty_cache()
