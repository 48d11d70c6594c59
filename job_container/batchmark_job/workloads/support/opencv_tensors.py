"""Applies OpenCV's filters directly to tensors' memory, as whole images or bands of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from batchmark_job.workloads.base import BufferedImplementation
from batchmark_job.workloads.support import images, work_sharing
from batchmark_job.workloads.tensors import Call, Tensor, Tensors

Image = NDArray[np.floating[Any]]


class OpenCVFilter(BufferedImplementation):
    """An OpenCV filter that writes into one channels-last batch of images."""

    library = "cv2"
    devices = ("cpu",)
    dtypes = ("float32", "float64")  # OpenCV's filters don't support 16-bit floats

    def arrange(self, inputs: Tensors) -> Tensors:
        return (images.channels_last(inputs[0]),)


def views(batch: Tensor) -> list[Image]:
    """Return one height × width × channel view per image of a channels-last batch."""
    return [image.permute(1, 2, 0).numpy() for image in batch]


class Band(NamedTuple):
    """A band of an image's rows, and where to put the band's result in the output."""

    source: Image  # including the rows around it that the filter reads, as far as they exist
    target: Image
    inner: slice  # which of the source's rows are the target's


def in_bands(
    batch: Tensor, output: Tensor, rows: int, *, halo: int, work: Callable[[Band], None]
) -> Call:
    """Return a call that uses all threads to filter the bands that make up the output."""
    return work_sharing.filling(output, bands(views(batch), views(output), rows, halo), work)


def bands(sources: Iterable[Image], targets: Iterable[Image], rows: int, halo: int) -> list[Band]:
    """Cut images into bands of at most `rows` rows; a filter reads `halo` rows on either side."""
    cut = []
    for source, target in zip(sources, targets, strict=True):
        for top in range(0, len(source), rows):
            bottom = min(top + rows, len(source))
            first = max(top - halo, 0)
            inner = slice(top - first, bottom - first)
            cut.append(Band(source[first : bottom + halo], target[top:bottom], inner))
    return cut
