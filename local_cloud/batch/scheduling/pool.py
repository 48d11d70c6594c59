"""Keeps track of the free vCPUs, memory and GPUs of the machine or of an instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from local_cloud.batch.jobs.resources import Allocation, Requirements


@dataclass
class Reservation:
    """Resources that waiting jobs have reserved in one scheduling round."""

    kinds: set[str] = field(default_factory=set)
    instances: set[str] = field(default_factory=set)  # shared instances, by environment

    def everything(self) -> bool:
        """Return whether vCPUs or memory are reserved, in which case no later job can start."""
        return not self.kinds.isdisjoint(("vcpus", "memory"))


@dataclass
class Pool:
    """The resources of the machine or an instance; callers must hold the scheduler's lock."""

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
        """Return whether a job fits when nothing else is running."""
        return needed.within(Requirements(self.vcpus, self.memory_mib, self.gpus))

    def can_hold(self, needed: Requirements) -> bool:
        """Return whether a job fits into the resources that are free now."""
        free = Requirements(self.free_vcpus, self.free_memory_mib, len(self.free_gpu_ids))
        return needed.within(free)

    def take(self, needed: Requirements, reserved: Reservation) -> Allocation | None:
        """Allocate what a job needs, or return None if it isn't free or an earlier job reserved it.

        What isn't free is reserved for the job so that later jobs don't starve it.
        """
        short = {
            "vcpus": needed.vcpus > self.free_vcpus,
            "memory": needed.memory_mib > self.free_memory_mib,
            "gpus": needed.gpus > len(self.free_gpu_ids),
        }
        if lacks := {kind for kind, is_short in short.items() if is_short}:
            reserved.kinds |= lacks
            return None
        if reserved.everything() or (needed.gpus and "gpus" in reserved.kinds):
            return None
        return self.allocate(needed, self.free_gpu_ids[: needed.gpus])

    def allocate(self, needed: Requirements, gpu_ids: Sequence[str]) -> Allocation:
        """Allocate resources, skipping GPUs that are gone after a restart with fewer of them."""
        self.free_vcpus -= needed.vcpus
        self.free_memory_mib -= needed.memory_mib
        still_there = tuple(gpu_id for gpu_id in gpu_ids if gpu_id in self.free_gpu_ids)
        self.free_gpu_ids = [free for free in self.free_gpu_ids if free not in still_there]
        return Allocation(needed, still_there)

    def give_back(self, allocation: Allocation) -> None:
        self.free_vcpus += allocation.requirements.vcpus
        self.free_memory_mib += allocation.requirements.memory_mib
        self.free_gpu_ids = sorted([*self.free_gpu_ids, *allocation.gpu_ids], key=int)
