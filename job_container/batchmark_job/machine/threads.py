"""How many CPU threads the math libraries use: the same number for all of them."""

from __future__ import annotations

import cv2
import threadpoolctl
import torch

from batchmark_job.machine import fingerprint


def set_threads(count: int) -> None:
    """Set the threads of torch, OpenCV and every BLAS and OpenMP pool that is loaded by now.

    Pools remember the number by calling thread, so call it from the thread that measures.
    """
    torch.set_num_threads(count)
    cv2.setNumThreads(count)
    threadpoolctl.threadpool_limits(limits=count)


def thread_counts_to_try(count: int) -> tuple[int, ...]:
    """The job's threads and, where two of them share a core, one thread per physical core."""
    cores = fingerprint.usable_cores()
    return (count, cores) if cores < count else (count,)
