"""Tensor types for annotations that don't require loading torch, which takes seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any

__all__ = ["Call", "Network", "Parameters", "Shape", "Tensor", "Tensors"]

Tensors = tuple[Tensor, ...]
Call = Callable[[], Tensor]
Network = Callable[[Tensor], Tensor]
Parameters = Mapping[str, int]
Shape = tuple[int, ...]
