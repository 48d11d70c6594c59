"""Edges of RGB images: magnitude of the 3×3 Sobel gradient of each channel, borders reflected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batchmark_job.workloads import images, opencv_support, reference, torch_support
from batchmark_job.workloads.base import DTYPE_BYTES, Implementation

if TYPE_CHECKING:
    from torch import Tensor

    from batchmark_job.workloads.base import Call, Parameters, Tensors
    from batchmark_job.workloads.reference import Float64Array

DERIVATIVE = np.array([-1.0, 0.0, 1.0])
SMOOTHING = np.array([1.0, 2.0, 1.0])


class OpenCVSobel(Implementation):
    name = "opencv"
    devices = ("cpu",)
    dtypes = opencv_support.DTYPES

    def version(self) -> str:
        return opencv_support.version()

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Input and output, and two gradients of one image."""
        gradients = 2 * images.CHANNELS * parameters["size"] ** 2 * DTYPE_BYTES[dtype]
        return 2 * images.batch_bytes(parameters, dtype) + gradients

    def arrange(self, inputs: Tensors) -> Tensors:
        return (images.channels_last(inputs[0]),)

    def prepare(self, inputs: Tensors) -> Call:
        import cv2

        edges = opencv_support.empty_like(inputs[0])
        sources, targets = opencv_support.views(inputs[0]), opencv_support.views(edges)
        horizontal, vertical = np.empty_like(sources[0]), np.empty_like(sources[0])
        border = cv2.BORDER_REFLECT_101

        def call() -> Tensor:
            for source, target in zip(sources, targets, strict=True):
                cv2.Sobel(source, -1, 1, 0, dst=horizontal, ksize=3, borderType=border)
                cv2.Sobel(source, -1, 0, 1, dst=vertical, ksize=3, borderType=border)
                cv2.magnitude(horizontal, vertical, magnitude=target)
            return edges

        return call


class TorchSobel(Implementation):
    """Both gradients by one depthwise convolution."""

    name = "torch depthwise"
    devices = ("cuda",)

    def version(self) -> str:
        return torch_support.version()

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Input, padded input, two gradients, their magnitude, and the last call's."""
        padded = dict(parameters, size=parameters["size"] + 2)
        return 6 * images.batch_bytes(padded, dtype)

    def prepare(self, inputs: Tensors) -> Call:
        import torch
        import torch.nn.functional as F  # noqa: N812

        batch = inputs[0]
        kernels = np.stack([np.outer(SMOOTHING, DERIVATIVE), np.outer(DERIVATIVE, SMOOTHING)])
        weights = torch.from_numpy(kernels).to(batch.device, batch.dtype).unsqueeze(1)
        weights = weights.repeat(images.CHANNELS, 1, 1, 1)

        def call() -> Tensor:
            padded = F.pad(batch, (1, 1, 1, 1), mode="reflect")
            gradients = F.conv2d(padded, weights, groups=images.CHANNELS)
            return torch.hypot(gradients[:, 0::2], gradients[:, 1::2])

        return call


class EdgeDetection(images.ImageFilter):
    name = "edge_detection"
    summary = "magnitude of the 3x3 Sobel gradient, borders reflected"
    axes = images.axes(minimum_size=2)
    implementations = (OpenCVSobel(), TorchSobel())

    def flops(self, parameters: Parameters) -> int:
        """26 per element: 6 products and 5 sums for each gradient, 4 for their magnitude."""
        return images.pixels(parameters) * images.CHANNELS * 26

    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:
        count, _, height, width = output.shape
        return reference.relative_error(
            (
                reference.take_crop(output, crop),
                _magnitude(reference.reflected_window(inputs[0], crop, halo=1)),
            )
            for crop in reference.crops(count, height, width, rng)
        )


def _magnitude(window: Float64Array) -> Float64Array:
    horizontal = reference.correlate(reference.correlate(window, SMOOTHING, 1), DERIVATIVE, 2)
    vertical = reference.correlate(reference.correlate(window, DERIVATIVE, 1), SMOOTHING, 2)
    return np.asarray(np.hypot(horizontal, vertical))
