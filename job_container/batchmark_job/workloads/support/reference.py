"""Float64 references for parts of the output, in plain NumPy, independent of the measured code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from batchmark_job.workloads.tensors import Tensor

Float64Array = NDArray[np.float64]

CROP_SIZE = 16  # judgment: outputs outside the crops go unchecked; larger ones take longer
RANDOM_CROPS = 4  # judgment: as many as corners


class Crop(NamedTuple):
    """A window in one image of a batch."""

    image: int
    top: int
    left: int
    height: int
    width: int


def crops(batch: int, height: int, width: int, rng: np.random.Generator) -> list[Crop]:
    """Choose the four corners, where padding shows, and a few random windows."""
    crop_height, crop_width = min(CROP_SIZE, height), min(CROP_SIZE, width)
    bottom, right = height - crop_height, width - crop_width
    corners = [(0, 0, 0), (batch - 1, 0, right), (0, bottom, 0), (batch - 1, bottom, right)]
    inside = [
        (int(rng.integers(batch)), int(rng.integers(bottom + 1)), int(rng.integers(right + 1)))
        for _ in range(RANDOM_CROPS)
    ]
    return [Crop(*corner, crop_height, crop_width) for corner in corners + inside]


def to_float64(tensor: Tensor) -> Float64Array:
    """Copy a tensor to the host as float64, converted by torch because NumPy has no bfloat16."""
    import torch

    array: Float64Array = tensor.detach().to("cpu", torch.float64).numpy()
    return array


def take(images: Tensor, image: int, rows: NDArray[Any], columns: NDArray[Any]) -> Float64Array:
    """Return these rows and columns of an image, copying only the region around them."""
    top, left = rows.min(), columns.min()
    region = to_float64(images[image, :, top : rows.max() + 1, left : columns.max() + 1])
    return region[:, rows - top][:, :, columns - left]


def take_crop(images: Tensor, crop: Crop) -> Float64Array:
    rows = np.arange(crop.top, crop.top + crop.height)
    columns = np.arange(crop.left, crop.left + crop.width)
    return take(images, crop.image, rows, columns)


def reflect(indices: NDArray[Any], length: int) -> NDArray[Any]:
    """Mirror indices at the borders without repeating the border itself."""
    indices = np.abs(indices)
    return np.where(indices >= length, 2 * (length - 1) - indices, indices)


def reflected_window(images: Tensor, crop: Crop, halo: int) -> Float64Array:
    """Return a crop with a halo around it, reflecting the image at its borders."""
    height, width = images.shape[2:]
    rows = np.arange(crop.top - halo, crop.top + crop.height + halo)
    columns = np.arange(crop.left - halo, crop.left + crop.width + halo)
    return take(images, crop.image, reflect(rows, height), reflect(columns, width))


def correlate(window: Float64Array, taps: Float64Array, axis: int) -> Float64Array:
    """Apply a one-dimensional filter along an axis, without padding."""
    return np.asarray(sliding_window_view(window, len(taps), axis=axis) @ taps)


def relative_error(pairs: Iterable[tuple[Float64Array, Float64Array]]) -> float:
    """Return the largest error in (result, reference) pairs, relative to the largest reference.

    If all references are 0, the error is absolute.
    """
    error = scale = 0.0
    for result, reference in pairs:
        difference = float(np.max(np.abs(result - reference)))
        # max() would drop a NaN depending on its position.
        error = difference if np.isnan(difference) or difference > error else error
        if np.isnan(error):
            return error
        scale = max(scale, float(np.max(np.abs(reference))))
    return error / scale if scale else error
