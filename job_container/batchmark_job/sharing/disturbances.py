"""Disturbs the other replicas in an experiment; runs in the disturbing replica's process."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import signal
from typing import NoReturn

import psutil
import torch
from torch import Tensor

from batchmark_job.result.sharing import Disturbance

BLOCK_BYTES = 2**26  # a quarter of SPARE_BYTES: fills memory in few steps, to within a block
# Bytes the replica may still allocate on the CPU: exhausting the host would end the others.
SPARE_BYTES = 2**28
SPIN_CYCLES = 2**62  # of the GPU's clock: longer than any timeout


def disturb(disturbance: Disturbance, device: str) -> NoReturn:
    """Crash, hang or use up all memory, depending on the disturbance.

    Raises:
        MemoryError | RuntimeError: out of memory.
    """
    if disturbance is Disturbance.CRASH:
        _crash(device)
    if disturbance is Disturbance.HANG:
        _hang(device)
    _use_up_memory(device)


def _crash(device: str) -> NoReturn:
    """Crash this process; on a GPU, first destroy the context with an out-of-bounds read."""
    if device == "cuda":
        nowhere = torch.full((1,), 2**40, dtype=torch.int64, device="cuda")
        with contextlib.suppress(RuntimeError):
            torch.zeros(1, device="cuda")[nowhere].cpu()
    faulthandler.disable()  # it would fill the log with an intended crash
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError("unreachable")


def _hang(device: str) -> NoReturn:
    """Keep the device busy forever, without responding."""
    if device == "cuda":
        torch.cuda._sleep(SPIN_CYCLES)  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
    while True:
        pass


def _use_up_memory(device: str) -> NoReturn:
    if device == "cpu":
        held = psutil.Process().memory_info().vms
        resource.setrlimit(resource.RLIMIT_AS, (held + SPARE_BYTES, resource.RLIM_INFINITY))
    blocks: list[Tensor] = []
    while True:
        blocks.append(torch.zeros(BLOCK_BYTES, dtype=torch.uint8, device=device))
