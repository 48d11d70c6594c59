"""How long allocating memory on the device takes, and copying to it and back."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from batchmark_job.machine import memory
from batchmark_job.measuring.samples.sampling import MonotonicTimer

if TYPE_CHECKING:
    from batchmark_job.workloads.base import Tensors

TRANSFER_SAMPLES = 5


def time_transfers(
    host_inputs: Tensors, device_inputs: Tensors, output: Tensor
) -> dict[str, float]:
    """Median seconds by the fields of Phases; what there is no memory for is left out.

    Copies are between page-locked host memory and the device.
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
    with torch.no_grad(), contextlib.suppress(RuntimeError):  # inputs may want gradients
        found["allocate_seconds"] = median(allocate, before=memory.release_cuda_cache)
        pinned = tuple(tensor.pin_memory() for tensor in host_inputs)
        target = torch.empty_like(output, device="cpu").pin_memory()
        found["host_to_device_seconds"] = median(to_device)
        found["device_to_host_seconds"] = median(to_host)
    return found
