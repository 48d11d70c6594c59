"""Controls how many CPU threads the math libraries use, and on which cores they run."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import cycle

import cv2
import threadpoolctl
import torch

from batchmark_job.machine import fingerprint
from batchmark_job.machine.conditions import ThreadTime, thread_times

BUSY_SHARE = 0.1  # of the busiest thread's running time
LOOK_SECONDS = 0.008  # minimum, since a running thread's time is updated every 1 to 4 ms


class WorkingThreads:
    """Finds the threads that do the work in each of a process's calls.

    Finding them once isn't enough: threads that checked or copied something keep spinning for 10 ms
    and look busy.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._found: list[int] = []

    @contextlib.contextmanager
    def pinned(self) -> Iterator[None]:
        """Within the context, pin the threads found during the last calls, each to one core."""
        before, began = thread_times() or {}, time.perf_counter()
        with pinned_to_cores(self._found):
            yield
        if time.perf_counter() - began >= LOOK_SECONDS:
            self._found = busiest(before, thread_times() or {})[: self.most]


def set_threads(count: int) -> None:
    """Set the thread count of torch, OpenCV and every BLAS and OpenMP pool loaded so far.

    Pools remember the number per calling thread, so call this from the thread that measures.
    """
    torch.set_num_threads(count)
    cv2.setNumThreads(count)
    _pools(len(sys.modules)).limit(limits=count)


@cache
def _pools(modules: int) -> threadpoolctl.ThreadpoolController:  # noqa: ARG001
    """Return the controllers of all loaded pools; cached, because finding them takes 10 ms."""
    return threadpoolctl.ThreadpoolController()


def find_pools() -> None:
    """Find the loaded pools now, and remember them until more modules are imported."""
    _pools(len(sys.modules))


def thread_counts_to_try(count: int) -> tuple[int, ...]:
    """Return thread counts to try: all threads, then the core count, halved repeatedly down to 1.

    Small tasks are slower on many threads: each has to be woken, and all wait for the last one.
    """
    cores = min(fingerprint.usable_cores(), count)
    halves = {cores >> times for times in range(cores.bit_length())}
    return tuple(sorted({count, *halves}, reverse=True))


@contextlib.contextmanager
def pinned_to_cores(threads: Sequence[int]) -> Iterator[None]:
    """Within the context, pin each of these threads in this process to one core.

    Threads that have just started, were stopped or sleep between calls can share a core for 60 ms
    or more until the scheduler separates them. Threads that are already pinned are left alone.
    """
    allowed = _cores(0)
    free = [thread for thread in threads if _cores(thread) == allowed]
    places = dict(zip(free, cycle(sorted(allowed)), strict=False)) if len(free) > 1 else {}
    for thread, core in places.items():
        _bind(thread, {core})
    try:
        yield
    finally:
        for thread in places:
            _bind(thread, allowed)


def busiest(before: Mapping[str, ThreadTime], after: Mapping[str, ThreadTime]) -> list[int]:
    """Return the threads that were busy between two moments, busiest first."""
    nothing = ThreadTime(0, 0)
    ran = {int(id_): now.since(before.get(id_, nothing)).ran for id_, now in after.items()}
    most = max(ran.values(), default=0)
    busy = [thread for thread, its in ran.items() if its > BUSY_SHARE * most]
    return sorted(busy, key=lambda thread: -ran[thread])


def _cores(thread: int) -> set[int]:
    with contextlib.suppress(OSError, AttributeError):  # the thread has ended, or this is not Linux
        return os.sched_getaffinity(thread)
    return set()


def _bind(thread: int, cores: set[int]) -> None:
    with contextlib.suppress(OSError):
        os.sched_setaffinity(thread, cores)
