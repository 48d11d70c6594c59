"""Gaussian blur of RGB images: 15×15 kernel, σ 5, borders reflected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batchmark_job.workloads import images, opencv_support, reference, torch_support
from batchmark_job.workloads.base import Implementation

if TYPE_CHECKING:
    from torch import Tensor

    from batchmark_job.workloads.base import Call, Parameters, Tensors
    from batchmark_job.workloads.reference import Float64Array

KERNEL_SIZE = 15
SIGMA = 5.0
HALO = KERNEL_SIZE // 2


def _taps() -> Float64Array:
    offsets = np.arange(KERNEL_SIZE, dtype=np.float64) - HALO
    taps = np.exp(-(offsets**2) / (2 * SIGMA**2))
    return np.asarray(taps / taps.sum())


class OpenCVBlur(Implementation):
    name = "opencv"
    devices = ("cpu",)
    dtypes = opencv_support.DTYPES

    def version(self) -> str:
        return opencv_support.version()

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        return 2 * images.batch_bytes(parameters, dtype)

    def arrange(self, inputs: Tensors) -> Tensors:
        return (images.channels_last(inputs[0]),)

    def prepare(self, inputs: Tensors) -> Call:
        import cv2

        blurred = opencv_support.empty_like(inputs[0])
        pairs = list(
            zip(opencv_support.views(inputs[0]), opencv_support.views(blurred), strict=True)
        )

        def call() -> Tensor:
            for source, target in pairs:
                cv2.GaussianBlur(
                    source,
                    (KERNEL_SIZE, KERNEL_SIZE),
                    SIGMA,
                    dst=target,
                    sigmaY=SIGMA,
                    borderType=cv2.BORDER_REFLECT_101,
                )
            return blurred

        return call


class TorchBlur(Implementation):
    """Two depthwise convolutions, one per direction."""

    name = "torch separable"
    devices = ("cuda",)

    def version(self) -> str:
        return torch_support.version()

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Input, padded input, half-blurred, and the results of this and the last call."""
        padded = dict(parameters, size=parameters["size"] + 2 * HALO)
        return 5 * images.batch_bytes(padded, dtype)

    def prepare(self, inputs: Tensors) -> Call:
        import torch
        import torch.nn.functional as F  # noqa: N812

        batch = inputs[0]
        taps = torch.from_numpy(_taps()).to(batch.device, batch.dtype)
        row = taps.view(1, 1, 1, -1).expand(images.CHANNELS, 1, 1, -1).contiguous()
        column = taps.view(1, 1, -1, 1).expand(images.CHANNELS, 1, -1, 1).contiguous()

        def call() -> Tensor:
            padded = F.pad(batch, (HALO, HALO, HALO, HALO), mode="reflect")
            half = F.conv2d(padded, row, groups=images.CHANNELS)
            return F.conv2d(half, column, groups=images.CHANNELS)

        return call


class GaussianBlur(images.ImageFilter):
    name = "gaussian_blur"
    summary = "15x15 Gaussian blur, sigma 5, borders reflected"
    axes = images.axes(minimum_size=HALO + 1)
    implementations = (OpenCVBlur(), TorchBlur())

    def flops(self, parameters: Parameters) -> int:
        """2 · (15 + 15) per element: the kernel taken apart into a row and a column."""
        return images.pixels(parameters) * images.CHANNELS * 2 * 2 * KERNEL_SIZE

    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:
        batch, taps = inputs[0], _taps()
        count, _, height, width = output.shape
        return reference.relative_error(
            (
                reference.take_crop(output, crop),
                reference.correlate(
                    reference.correlate(
                        reference.reflected_window(batch, crop, HALO), taps, axis=1
                    ),
                    taps,
                    axis=2,
                ),
            )
            for crop in reference.crops(count, height, width, rng)
        )
