"""Misbehaving implementations of a real matrix product; nothing here depends on speed."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from batchmark_job.workloads.base import Call, Implementation, Tensors
from batchmark_job.workloads.matmul import Matmul, TorchMatmul

Spoil = Callable[[torch.Tensor], torch.Tensor]


def product_by(name: str, spoil: Spoil = lambda product: product) -> Implementation:
    class Spoilt(TorchMatmul):
        def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Call:
            call = super().prepare_with(inputs, buffers)
            return lambda: spoil(call())

    Spoilt.name = name
    return Spoilt()


def matmul_by(*chosen: Implementation) -> Matmul:
    class MatmulByThese(Matmul):
        implementations = chosen

    return MatmulByThese()


def slowed(seconds: float) -> Spoil:
    """Slow an implementation down by at least this much; load on the machine adds to it."""

    def spoil(product: torch.Tensor) -> torch.Tensor:
        time.sleep(seconds)
        return product

    return spoil


def raising(error: BaseException) -> Spoil:
    def spoil(product: torch.Tensor) -> torch.Tensor:
        raise error

    return spoil


def after(calls: int, spoil: Spoil) -> Spoil:
    """Misbehave only after some calls."""
    made = 0

    def late(product: torch.Tensor) -> torch.Tensor:
        nonlocal made
        made += 1
        return spoil(product) if made > calls else product

    return late
