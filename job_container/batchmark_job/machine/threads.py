"""How many CPU threads the math libraries use: one number for all of them."""

from __future__ import annotations

from batchmark_job import environment


def give_threads(count: int) -> None:
    """Let torch, OpenCV and every BLAS and OpenMP pool that is loaded by now use so many threads.

    Pools remember it per calling thread, so call it from the thread that measures.
    """
    import cv2
    import threadpoolctl
    import torch

    torch.set_num_threads(count)
    cv2.setNumThreads(count)
    threadpoolctl.threadpool_limits(limits=count)


def worth_trying(count: int) -> tuple[int, ...]:
    """The job's threads and, where two of them share a core, one thread per physical core."""
    cores = environment.usable_cores()
    return (count, cores) if cores < count else (count,)
