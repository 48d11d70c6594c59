"""The state of the simulated device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from tests.stand_ins.nvml import Card

ILLEGAL_ACCESS = "CUDA error: an illegal memory access was encountered"
NOT_IN_A_CAPTURE = "CUDA error: operation not permitted when stream is capturing"
GIB = 2**30


@dataclass
class SimulatedGpu:
    """One GPU: what it is, and what became of it."""

    name: str
    capability: tuple[int, int]
    memory_bytes: int
    cache_bytes: int
    uuid: str = "aa"
    multiprocessors: int = 40  # a T4's
    used_by_others: int = 0  # bytes
    lost: bool = False
    asleep: bool = False  # until something waits for it
    capturing: Any = None  # the graph
    card: Card = field(default_factory=Card)  # what NVML says
    peak_bytes: int = 0
    streams: int = 0  # made so far
    stream: Any = None  # the current one; None for the default one
    attention: Any = None  # the only backend of attention that may run
    held: dict[StorageWeakRef, int] = field(default_factory=dict)  # bytes

    def check(self) -> None:
        """Fail like every call after an illegal access."""
        if self.lost:
            raise torch.AcceleratorError(ILLEGAL_ACCESS)

    def wait(self) -> None:
        """Wait for all work, which a capture can't."""
        self.check()
        if self.capturing is not None:
            raise torch.AcceleratorError(NOT_IN_A_CAPTURE)
        self.asleep = False

    def sleep(self, cycles: int) -> None:
        """Do nothing for so long that the queue can be filled meanwhile."""
        self.check()
        self.asleep = cycles > 0

    def lose(self) -> None:
        self.lost = True
        self.check()

    def allocate(self, tensor: torch.Tensor) -> torch.Tensor:
        """Count a tensor's memory for as long as it lives."""
        self.check()
        storage = tensor.untyped_storage()
        needed = storage.nbytes()
        if needed > self.free_bytes():
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {needed / 2**20:.2f} MiB."
            )
        self.held[StorageWeakRef(storage)] = needed
        self.peak_bytes = max(self.peak_bytes, sum(self.held.values()))
        return tensor

    def holds(self, tensor: torch.Tensor) -> bool:
        return StorageWeakRef(tensor.untyped_storage()) in self.held

    def allocated_bytes(self) -> int:
        for storage in [storage for storage in self.held if storage.expired()]:
            del self.held[storage]
        return sum(self.held.values())

    def free_bytes(self) -> int:
        return self.memory_bytes - self.used_by_others - self.allocated_bytes()


# Compute capability, memory and last-level cache; NVIDIA's data sheets and CUDA's properties.
# The names say what they are, so that no document passes for a real GPU's.
GPUS = {
    "T4": ("simulated Tesla T4", (7, 5), 15 * GIB, 4 * 2**20),
    "A10G": ("simulated NVIDIA A10G", (8, 6), 22 * GIB, 6 * 2**20),
    "A100": ("simulated NVIDIA A100-SXM4-40GB", (8, 0), 40 * GIB, 40 * 2**20),
    "H200": ("simulated NVIDIA H200", (9, 0), 140 * GIB, 60 * 2**20),
}
