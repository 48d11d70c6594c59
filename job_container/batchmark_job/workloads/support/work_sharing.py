"""Runs tasks on several threads, each of which does single-threaded work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from batchmark_job.workloads.support import torch_calls
from batchmark_job.workloads.tensors import Call, Tensor

Task = TypeVar("Task")


def share_out(
    tasks: Sequence[Task], workers: Sequence[Callable[[Task], None]]
) -> Callable[[], None]:
    """Return a call in which each worker, in its own thread, takes tasks until none are left.

    This suits work that releases the GIL, as OpenCV, NumPy and torch functions do.
    """
    workers = workers[: len(tasks)]
    pool = _pool(len(workers))

    def call() -> None:
        left = iter(tasks)

        def work(worker: Callable[[Task], None]) -> None:
            for task in left:
                worker(task)

        for running in [pool.submit(work, worker) for worker in workers]:
            running.result()

    return call


def filling(output: Tensor, tasks: Sequence[Task], work: Callable[[Task], None]) -> Call:
    """Return a call that uses all threads to do `work` on the tasks, and returns `output`."""
    fill = share_out(tasks, [work] * torch_calls.threads())

    def call() -> Tensor:
        fill()
        return output

    return call


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return a pool of threads that sleep between calls, shared by all prepared calls."""
    return ThreadPoolExecutor(threads, "sharing", _compute_alone)


def _compute_alone() -> None:
    """Limit OpenMP, and therefore torch, to one thread when called from the current thread."""
    import threadpoolctl
    import torch

    torch.get_num_threads()  # otherwise torch would set its own number on this thread's first use
    threadpoolctl.threadpool_limits(limits=1, user_api="openmp")
