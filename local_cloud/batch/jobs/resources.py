"""The resources that jobs require, and those allocated to them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Requirements:
    """The resources needed by one node, or by all of a job's nodes together."""

    vcpus: float = 0.0
    memory_mib: int = 0
    gpus: int = 0

    def __add__(self, other: Requirements) -> Requirements:
        return Requirements(
            self.vcpus + other.vcpus, self.memory_mib + other.memory_mib, self.gpus + other.gpus
        )

    def within(self, size: Requirements) -> bool:
        return (
            self.vcpus <= size.vcpus
            and self.memory_mib <= size.memory_mib
            and self.gpus <= size.gpus
        )


@dataclass(frozen=True)
class Allocation:
    """The share of a pool's resources that a job or a shared instance holds.

    If the job shares its instance, `instance` is the ARN of the compute environment, and
    `shared_gpu_ids` lists all of the instance's GPUs.
    """

    requirements: Requirements
    gpu_ids: tuple[str, ...]
    instance: str | None = None
    shared_gpu_ids: tuple[str, ...] = ()
