"""OpenCV on the tensors' own memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

# OpenCV's filters take no 16-bit floating point.
DTYPES = ("float32", "float64")


def version() -> str:
    import cv2

    return str(cv2.__version__)


def views(batch: Tensor) -> list[NDArray[np.floating[Any]]]:
    """One height × width × channel view per image of a channels-last batch."""
    return [image.permute(1, 2, 0).numpy() for image in batch]


def empty_like(batch: Tensor) -> Tensor:
    import torch

    return torch.empty_like(batch, memory_format=torch.channels_last)
