"""How many CPU threads the math libraries use, the same for all of them, and on which cores."""

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

BUSY_SHARE = 0.1  # of the time that the busiest thread ran
LOOK_SECONDS = 0.008  # at least: a running thread's time is updated every 1 to 4 ms


class WorkingThreads:
    """The threads that work for a process' calls, found anew whenever it makes some.

    One look is not enough: threads that checked or copied something spin for 10 ms afterwards.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._found: list[int] = []

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Keep those of the last calls on a core each, while this process makes others."""
        before, began = thread_times() or {}, time.perf_counter()
        with apart(self._found):
            yield
        if time.perf_counter() - began >= LOOK_SECONDS:
            self._found = busiest(before, thread_times() or {})[: self.most]


def set_threads(count: int) -> None:
    """Set the threads of torch, OpenCV and every BLAS and OpenMP pool that is loaded by now.

    Pools remember the number by calling thread, so call it from the thread that measures.
    """
    torch.set_num_threads(count)
    cv2.setNumThreads(count)
    _pools(len(sys.modules)).limit(limits=count)


@cache
def _pools(modules: int) -> threadpoolctl.ThreadpoolController:  # noqa: ARG001
    """Those of all libraries loaded. To find them takes a new process 10 ms, so not twice."""
    return threadpoolctl.ThreadpoolController()


def find_pools() -> None:
    """Remember the pools that there are until further modules are imported."""
    _pools(len(sys.modules))


def thread_counts_to_try(count: int) -> tuple[int, ...]:
    """The job's threads; where several share a core, one for each; and half of that, down to 1.

    Small work is slower on many threads: each has to be woken, and all wait for the last one.
    """
    cores = min(fingerprint.usable_cores(), count)
    halves = {cores >> times for times in range(cores.bit_length())}
    return tuple(sorted({count, *halves}, reverse=True))


@contextlib.contextmanager
def apart(threads: Sequence[int]) -> Iterator[None]:
    """Keep these threads of this process on a core each meanwhile, the first ones apart.

    Threads that just began, that were stopped or that sleep between calls may share a core until
    the scheduler parts them, for 60 ms and more. One that somebody bound is left alone.
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
    """Which threads worked between two moments, the busiest first."""
    nothing = ThreadTime(0, 0)
    ran = {int(id_): now.since(before.get(id_, nothing)).ran for id_, now in after.items()}
    most = max(ran.values(), default=0)
    busy = [thread for thread, its in ran.items() if its > BUSY_SHARE * most]
    return sorted(busy, key=lambda thread: -ran[thread])


def _cores(thread: int) -> set[int]:
    with contextlib.suppress(OSError, AttributeError):  # it has ended meanwhile; not on Linux
        return os.sched_getaffinity(thread)
    return set()


def _bind(thread: int, cores: set[int]) -> None:
    with contextlib.suppress(OSError):
        os.sched_setaffinity(thread, cores)
