"""Times calls: timers, the warm-up, and the rule for when to stop sampling."""

from __future__ import annotations

import contextlib
import gc
import math
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from batchmark_job.formatting import duration
from batchmark_job.measuring.limits import PATIENCE, RowLimits
from batchmark_job.measuring.samples.sample_statistics import drift, spread_too_far, stopping
from batchmark_job.result.document import Criterion, Stopping
from batchmark_job.workloads.tensors import Call

WARMUP_SHARE = 0.2  # of max_seconds, the limit of warming up
WARMUP_SECONDS = 0.02  # minimum, if max_seconds allows: a new process's caches are cold
WARMUP_CALLS = 5  # in a window, at least
WARMUP_WINDOW_SHARE = 0.02  # of max_seconds, the shortest window
WARMUP_AGREEMENT = 0.03  # relative, between successive windows' medians

SHORTEST_SHARE = 0.1  # of max_seconds, the least time to sample, however precise
REPORT_SECONDS = 1.0  # between reports of samples
# Two threads on one core took 16 ms for 40 µs, for seconds, with hardly any spread.
TRIAL_FACTOR = 3.0
# On an H200 a single shorter call consisted of host launches for up to half of it, and 11 of 26
# rows clustered around several values (docs/measurement.md).
SHORT_SECONDS = 0.2e-3
QUEUE_SECONDS = 1e-3  # least duration of a sample of short calls
MOST_QUEUED = 100  # beyond about a thousand queued kernels the host waits for the GPU


class Rotation:
    """Calls prepared for different inputs, to be taken in rotation."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = tuple(calls)
        self._next = 0
        self.last = 0  # index of the call taken last

    def take(self) -> Call:
        self.last = self._next
        self._next = (self._next + 1) % len(self._calls)
        return self._calls[self.last]


class Timer(ABC):
    """Times calls one by one, or several in a row if a single one is too short to time."""

    name: Literal["monotonic", "cuda_events"]
    clock_resolution_seconds = 0.0
    evicted_bytes = 0  # written before each call, to evict the previous call's data from the cache
    calls_per_sample = 1

    @abstractmethod
    def seconds(self, call: Callable[[], Any]) -> tuple[float, Any]:
        """Return the duration and the result of one call; the device must be idle beforehand."""

    def sample(self, rotation: Rotation) -> tuple[float, Any]:
        """Return the mean duration of `calls_per_sample` calls in a row, and the last result."""

        def calls() -> Any:
            for _ in range(self.calls_per_sample):
                result = rotation.take()()
            return result

        seconds, result = self.seconds(calls if self.calls_per_sample > 1 else rotation.take())
        return seconds / self.calls_per_sample, result

    @property
    def resolution_seconds(self) -> float:
        """The resolution of a sample's duration."""
        return self.clock_resolution_seconds / self.calls_per_sample

    def fit(self, call_seconds: float) -> None:  # noqa: B027 - a host clock has no queue
        """Choose the number of calls per sample, given the duration of one call."""


class MonotonicTimer(Timer):
    """Times calls with the host's clock, waiting for the device before and after each one."""

    name = "monotonic"

    def __init__(self, device: str) -> None:
        self._synchronize = torch.cuda.synchronize if device == "cuda" else torch.cpu.synchronize

    def seconds(self, call: Callable[[], Any]) -> tuple[float, Any]:
        self._synchronize()
        start = time.perf_counter()
        result = call()
        self._synchronize()
        return time.perf_counter() - start, result


class CudaEventTimer(Timer):
    """Times calls with CUDA events, from the first kernel's launch until the last kernel ends."""

    name = "cuda_events"
    # CUDA Runtime API, cudaEventElapsedTime: "a resolution of around 0.5 microseconds".
    clock_resolution_seconds = 0.5e-6

    def __init__(self, evicted_bytes: int = 0) -> None:
        """Allocate a buffer of `evicted_bytes` to overwrite before each call, if memory allows.

        Raises:
            RuntimeError: CUDA reported an error.
        """
        self._evicting: Tensor | None = None
        if evicted_bytes:
            with contextlib.suppress(torch.OutOfMemoryError):
                self._evicting = torch.empty(evicted_bytes, dtype=torch.uint8, device="cuda")
                self.evicted_bytes = evicted_bytes
        self._start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self._end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()

    def fit(self, call_seconds: float) -> None:
        """Use several calls per sample if they are short, as timing one would include its launch.

        Use a single call if the cache must be cleared before each one.
        """
        if call_seconds < SHORT_SECONDS and not self.evicted_bytes:
            wanted = math.ceil(QUEUE_SECONDS / max(call_seconds, self.clock_resolution_seconds))
            self.calls_per_sample = min(wanted, MOST_QUEUED)

    def seconds(self, call: Callable[[], Any]) -> tuple[float, Any]:
        if self._evicting is not None:
            self._evicting.zero_()
            torch.cuda.synchronize()
        self._start.record()
        result = call()
        self._end.record()
        self._end.synchronize()
        elapsed = self._start.elapsed_time(self._end) / 1e3
        return max(elapsed, self.clock_resolution_seconds), result


def timer_for(device: str, evicted_bytes: int = 0) -> Timer:
    return CudaEventTimer(evicted_bytes) if device == "cuda" else MonotonicTimer(device)


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Turn off garbage collection within the context; a nested context does not turn it back on."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def warm_up(
    rotation: Rotation, timer: Timer, limits: RowLimits, least_seconds: float = WARMUP_SECONDS
) -> int:
    """Make calls until the medians of successive windows agree; return the number of calls.

    A window has at least WARMUP_CALLS samples, and lasts for at least WARMUP_WINDOW_SHARE of the
    row's `max_seconds`. Warming up takes at least `least_seconds` (or `max_seconds` if shorter);
    beyond that, it ends after WARMUP_SHARE of `max_seconds` at the latest.
    """
    least_seconds = min(least_seconds, limits.max_seconds)
    most_seconds = max(WARMUP_SHARE * limits.max_seconds, least_seconds)
    calls = 0
    before: float | None = None
    started = time.perf_counter()
    while True:
        window: list[float] = []
        opened = time.perf_counter()
        while True:
            window.append(timer.sample(rotation)[0])
            calls += timer.calls_per_sample
            now = time.perf_counter()
            if now - started >= most_seconds:
                return calls
            if (
                len(window) >= WARMUP_CALLS
                and now - opened >= WARMUP_WINDOW_SHARE * limits.max_seconds
            ):
                break
        median = statistics.median(window)
        agree = before is not None and abs(median - before) <= WARMUP_AGREEMENT * before
        if agree and now - started >= least_seconds:
            return calls
        before = median


class StoppingRule:
    """Decides after each sample whether to stop sampling.

    To save time, the interval is recomputed only once there are an eighth more samples.
    """

    def __init__(self, limits: RowLimits) -> None:
        self._limits = limits
        self._next_look = limits.minimum_samples

    def verdict(self, samples: Sequence[float], seconds: float) -> Stopping | None:
        """Return why sampling should stop after `seconds`, or None to continue.

        If the samples reach their maximum number or time but are precise enough, precision is the
        reason.
        """
        limits, count = self._limits, len(samples)
        if count < limits.minimum_samples:
            next_ends = seconds * (count + 1) / count
            hopeless = next_ends > PATIENCE * limits.max_seconds
            return stopping("max_seconds", samples) if hopeless else None
        used_up: Criterion | None = None
        if count >= limits.samples:
            used_up = "max_samples"
        elif seconds >= limits.max_seconds:
            used_up = "max_seconds"
        elif count < self._next_look or seconds < SHORTEST_SHARE * limits.max_seconds:
            return None
        self._next_look = count + max(1, count // 8)
        precise = stopping("precise", samples)
        half_width = precise.relative_half_width
        if half_width is not None and half_width <= limits.precision:
            return precise
        return stopping(used_up, samples) if used_up else None

    def next_due(self, count: int) -> float:
        """Return the earliest start of sample number `count`, in seconds since sampling began.

        This spreads the samples of even the shortest calls over SHORTEST_SHARE of `max_seconds`.
        """
        gaps = max(1, self._limits.samples - 1)
        return SHORTEST_SHARE * self._limits.max_seconds * count / gaps


@dataclass(frozen=True)
class Sampled:
    """A series of samples: when each began (perf_counter), why sampling ended, and the last output.

    `calls` also counts the unrecorded calls between samples.
    """

    starts: Sequence[float]
    end: float
    calls: int
    stopping: Stopping
    output: Tensor

    @property
    def seconds(self) -> float:
        return self.end - self.starts[0]


def sample(
    rotation: Rotation,
    timer: Timer,
    limits: RowLimits,
    samples: list[float],
    report: Callable[[list[float]], None] = lambda _: None,
) -> Sampled:
    """Add to `samples` until the stopping rule applies, reporting all samples periodically."""
    rule = StoppingRule(limits)
    starts: list[float] = []
    unrecorded = 0
    started = time.perf_counter()
    now = reported = started
    while True:
        while now - started < rule.next_due(len(samples)):
            timer.sample(rotation)
            unrecorded += 1
            now = time.perf_counter()
        starts.append(now)
        seconds, output = timer.sample(rotation)
        samples.append(seconds)
        now = time.perf_counter()
        verdict = rule.verdict(samples, now - started)
        if verdict is not None:
            calls = (len(starts) + unrecorded) * timer.calls_per_sample
            return Sampled(starts, now, calls, verdict, output)
        if now - reported >= REPORT_SECONDS:
            report(list(samples))
            reported = now


def unsettled(samples: Sequence[float], trial_seconds: float | None = None) -> str | None:
    """Explain why the median of these samples is unusable, or return None if it is usable.

    It is unusable if it is more than TRIAL_FACTOR times `trial_seconds`, the median of the same
    calls shortly before, or if the samples drift or vary too much.
    """
    median = statistics.median(samples)
    if trial_seconds and median > TRIAL_FACTOR * trial_seconds:
        return (
            f"a call took {duration(trial_seconds)} in the trial, but {duration(median)} afterwards"
        )
    return drift(samples) or spread_too_far(samples)
