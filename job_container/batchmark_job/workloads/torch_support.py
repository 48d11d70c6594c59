"""What the torch implementations share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from batchmark_job.workloads.base import Tensors


def version() -> str:
    import torch

    return str(torch.__version__)


def native_refusal(device: str, dtype: str) -> str | None:
    """Refuse a 16-bit type that the CPU has no arithmetic for: torch then goes by elements."""
    if device != "cpu" or dtype not in {"float16", "bfloat16"}:
        return None
    import torch

    supported = {
        "float16": torch.ops.mkldnn._is_mkldnn_fp16_supported,
        "bfloat16": torch.ops.mkldnn._is_mkldnn_bf16_supported,
    }
    try:
        native = bool(supported[dtype]())
    except (AttributeError, RuntimeError):  # a torch built without oneDNN
        native = False
    return None if native else f"this CPU has no {dtype} arithmetic"


def uniform(
    shapes: Iterable[tuple[int, ...]], dtype: str, seed: int, *, low: float = 0.0
) -> Tensors:
    """Random host tensors between `low` and 1."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    torch_dtype = getattr(torch, dtype)
    return tuple(
        torch.empty(shape, dtype=torch_dtype).uniform_(low, 1.0, generator=generator)
        for shape in shapes
    )
