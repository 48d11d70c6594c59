"""A real matrix product whose rivals can be made to misbehave; nothing here depends on speed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from batchmark_job.workloads.matmul import Matmul, TorchMatmul

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from batchmark_job.workloads.base import Call, Implementation, Tensors

    Spoil = Callable[[torch.Tensor], torch.Tensor]


def rival_called(name: str, spoil: Spoil = lambda product: product) -> Implementation:
    """Torch's product, which then does something else with it."""

    class Rival(TorchMatmul):
        def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Call:
            call = super().prepare_with(inputs, buffers)
            return lambda: spoil(call())

    Rival.name = name
    return Rival()


def matmul_by(*rivals: Implementation) -> Matmul:
    class RivalledMatmul(Matmul):
        implementations = rivals

    return RivalledMatmul()


def slowed(seconds: float) -> Spoil:
    """At least so much slower: load on the machine only adds to it."""

    def spoil(product: torch.Tensor) -> torch.Tensor:
        time.sleep(seconds)
        return product

    return spoil


def raising(error: BaseException) -> Spoil:
    def spoil(product: torch.Tensor) -> torch.Tensor:
        raise error

    return spoil


def after(calls: int, spoil: Spoil) -> Spoil:
    """Well-behaved for some calls first."""
    made = 0

    def late(product: torch.Tensor) -> torch.Tensor:
        nonlocal made
        made += 1
        return spoil(product) if made > calls else product

    return late
