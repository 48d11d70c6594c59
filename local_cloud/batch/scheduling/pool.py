"""The declared machine: how many vCPUs, how much memory and which GPUs are free."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Requirements:
    """What one node, or a whole job, needs at the same time."""

    vcpus: float = 0.0
    memory_mib: int = 0
    gpus: int = 0

    def __add__(self, other: Requirements) -> Requirements:
        return Requirements(
            self.vcpus + other.vcpus, self.memory_mib + other.memory_mib, self.gpus + other.gpus
        )


@dataclass(frozen=True)
class Allocation:
    """What a job was given, GPUs by their ids."""

    requirements: Requirements
    gpu_ids: tuple[str, ...]


@dataclass
class Reservation:
    """The kinds of resource kept for jobs that wait already, during one round of scheduling."""

    vcpus: bool = False
    memory: bool = False
    gpus: bool = False

    def everything(self) -> bool:
        """Whether no job behind can start: each one needs vCPUs and memory."""
        return self.vcpus or self.memory


@dataclass
class Pool:
    """Resources of the machine; not thread-safe, its scheduler holds the lock."""

    vcpus: float
    memory_mib: int
    gpus: int
    free_vcpus: float = field(init=False)
    free_memory_mib: int = field(init=False)
    free_gpu_ids: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.free_vcpus = self.vcpus
        self.free_memory_mib = self.memory_mib
        self.free_gpu_ids = [str(index) for index in range(self.gpus)]

    def can_ever_hold(self, needed: Requirements) -> bool:
        """Whether the job fits on the machine when nothing else runs."""
        return (
            needed.vcpus <= self.vcpus
            and needed.memory_mib <= self.memory_mib
            and needed.gpus <= self.gpus
        )

    def take(self, needed: Requirements, reserved: Reservation) -> Allocation | None:
        """Allocate, or reserve the kinds the job lacks so that later jobs can't starve it."""
        lacks = Reservation(
            vcpus=needed.vcpus > self.free_vcpus,
            memory=needed.memory_mib > self.free_memory_mib,
            gpus=needed.gpus > len(self.free_gpu_ids),
        )
        if lacks.vcpus or lacks.memory or lacks.gpus:
            reserved.vcpus |= lacks.vcpus
            reserved.memory |= lacks.memory
            reserved.gpus |= lacks.gpus
            return None
        if reserved.everything() or (needed.gpus and reserved.gpus):
            return None
        self.free_vcpus -= needed.vcpus
        self.free_memory_mib -= needed.memory_mib
        given, self.free_gpu_ids = (
            self.free_gpu_ids[: needed.gpus],
            self.free_gpu_ids[needed.gpus :],
        )
        return Allocation(needed, tuple(given))

    def take_again(self, needed: Requirements, gpu_ids: Sequence[str]) -> Allocation:
        """What a job held before a restart, though the pool may be smaller now."""
        self.free_vcpus -= needed.vcpus
        self.free_memory_mib -= needed.memory_mib
        still_there = tuple(each for each in gpu_ids if each in self.free_gpu_ids)
        self.free_gpu_ids = [each for each in self.free_gpu_ids if each not in still_there]
        return Allocation(needed, still_there)

    def give_back(self, allocation: Allocation) -> None:
        """Return what a job held."""
        self.free_vcpus += allocation.requirements.vcpus
        self.free_memory_mib += allocation.requirements.memory_mib
        self.free_gpu_ids = sorted([*self.free_gpu_ids, *allocation.gpu_ids], key=int)
