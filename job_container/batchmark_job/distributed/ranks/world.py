"""The ranks in one torchrun launch, and how they communicate."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import torch
import torch.distributed as dist

from batchmark_job.errors import CannotMeasureError, InputError, say
from batchmark_job.machine import memory

WAIT_SECONDS = 600.0  # how long to wait for another rank: longer than any step or check takes


@dataclass(frozen=True)
class World:
    """This rank's place among all ranks; methods that communicate must be called on every rank."""

    rank: int
    size: int
    device: torch.device

    @classmethod
    def from_environment(cls, device: Literal["cpu", "cuda"]) -> World:
        """Read torchrun's environment; on CUDA, make this rank's device the current one.

        Raises:
            InputError: torchrun did not start this process.
            CannotMeasureError: this rank has no GPU of its own.
        """
        rank, size, local_rank = map(_number, ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
        if device == "cpu":
            return cls(rank, size, torch.device("cpu"))
        gpus = torch.cuda.device_count()
        if local_rank >= gpus:
            raise CannotMeasureError(
                f"this node has {gpus} GPU(s), but rank {local_rank} needs one of its own; start "
                f"{gpus} or fewer ranks on each node"
            )
        torch.cuda.set_device(local_rank)
        return cls(rank, size, torch.device("cuda", local_rank))

    @property
    def backend(self) -> str:
        return "nccl" if self.device.type == "cuda" else "gloo"

    @contextmanager
    def joined(self, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
        """Join the other ranks at the address in torchrun's environment.

        Args:
            wait_seconds: how long any call waits before another rank counts as lost.
        """
        dist.init_process_group(
            self.backend,
            timeout=timedelta(seconds=wait_seconds),
            device_id=self.device if self.device.type == "cuda" else None,
        )
        yield
        # Skipped after an error: it may wait for ranks that are gone.
        dist.destroy_process_group()

    def say(self, text: str) -> None:
        """Print a line about the progress of all ranks, on rank 0 only."""
        if self.rank == 0:
            say(text)

    def peak_bytes(self, device: str) -> int | None:
        """Return the highest peak memory of any rank so far, or None if it's unknown."""
        (peak,) = self.largest([float(memory.peak_bytes(device) or 0)])
        return int(peak) or None

    def wait_for_all(self) -> None:
        self.largest([0.0])

    def largest(self, values: Sequence[float]) -> list[float]:
        return self._reduced(values, dist.ReduceOp.MAX)

    def mean(self, values: Sequence[float]) -> list[float]:
        return [value / self.size for value in self._reduced(values, dist.ReduceOp.SUM)]

    def of_each_rank(self, values: Sequence[float]) -> list[list[float]]:
        own = self._tensor(values)
        if self.size == 1:
            return [own.tolist()]
        all_of_them = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(all_of_them, own)
        return [each.tolist() for each in all_of_them]

    def summed(self, tensor: torch.Tensor) -> torch.Tensor:
        """Sum the tensor over all ranks, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def of_first(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return rank 0's tensor."""
        theirs = tensor.clone()
        if self.size > 1:
            dist.broadcast(theirs, 0)
        return theirs

    def _reduced(self, values: Sequence[float], operation: dist.ReduceOp.RedOpType) -> list[float]:
        tensor = self._tensor(values)
        if self.size > 1:
            dist.all_reduce(tensor, operation)
        found: list[float] = tensor.tolist()
        return found

    def _tensor(self, values: Sequence[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64).to(self.device)


def _number(variable: str) -> int:
    value = os.environ.get(variable, "")
    if not value.isdecimal():
        raise InputError(
            f"{variable} is {value!r}; start this program with torchrun, which sets it to a number"
        )
    return int(value)
