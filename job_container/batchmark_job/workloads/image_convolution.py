"""Two 3×3 convolutions, 3 → 16 → 32 channels, each with ReLU, then 2×2 max-pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from batchmark_job.workloads import images, reference, torch_support
from batchmark_job.workloads.base import DTYPE_BYTES, Implementation, Workload

if TYPE_CHECKING:
    from torch import Tensor

    from batchmark_job.workloads.base import Call, Parameters, Tensors
    from batchmark_job.workloads.reference import Crop, Float64Array

CHANNELS = (images.CHANNELS, 16, 32)
WEIGHT_SHAPES = ((16, 3, 3, 3), (16,), (32, 16, 3, 3), (32,))
INDEX_BYTES = 8  # torch finds each maximum's place too, wanted or not
WEIGHT_COUNT = 16 * 3 * 9 + 16 + 32 * 16 * 9 + 32


class Weights(NamedTuple):
    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor


def _forward(batch: Tensor, weights: Weights) -> Tensor:
    import torch.nn.functional as F  # noqa: N812

    batch = F.conv2d(batch, weights.first, weights.first_bias, padding=1).relu_()
    batch = F.conv2d(batch, weights.second, weights.second_bias, padding=1).relu_()
    return F.max_pool2d(batch, 2)


class TorchConvolution(Implementation):
    """Channels last, without autograd: oneDNN on the CPU, cuDNN on CUDA."""

    name = "torch channels-last"
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def version(self) -> str:
        return torch_support.version()

    def refusal(self, device: str, dtype: str) -> str | None:
        return super().refusal(device, dtype) or torch_support.native_refusal(device, dtype)

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """The larger of two moments: the second convolution, and pooling with its indices.

        The input and the last call's result are there all the time.
        """
        pooled = CHANNELS[2] // 4
        always = CHANNELS[0] + pooled
        # oneDNN has no float64; torch then unfolds every pixel's neighbourhood.
        unfolded = 9 * CHANNELS[1] if dtype == "float64" else 0
        second_convolution = (always + CHANNELS[1] + CHANNELS[2] + unfolded) * DTYPE_BYTES[dtype]
        pooling = (always + CHANNELS[2] + pooled) * DTYPE_BYTES[dtype] + pooled * INDEX_BYTES
        weights = WEIGHT_COUNT * DTYPE_BYTES[dtype]
        most = images.pixels(parameters) * max(second_convolution, pooling)
        return most + most // 10 + weights  # a tenth for the library's own buffers

    def arrange(self, inputs: Tensors) -> Tensors:
        return tuple(images.channels_last(tensor) for tensor in inputs)

    def prepare(self, inputs: Tensors) -> Call:
        batch, weights = inputs[0], Weights(*inputs[1:])
        return lambda: _forward(batch, weights)


class TorchConvolutionViaFloat32(TorchConvolution):
    """For CPUs without 16-bit arithmetic."""

    name = "torch channels-last via float32"
    devices = ("cpu",)
    dtypes = ("float16", "bfloat16")

    def refusal(self, device: str, dtype: str) -> str | None:
        return Implementation.refusal(self, device, dtype)

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        channels = CHANNELS[0] + 2 * CHANNELS[2] // 4
        halves = images.pixels(parameters) * channels * DTYPE_BYTES[dtype]
        return super().working_set_bytes(parameters, "float32") + halves

    def prepare(self, inputs: Tensors) -> Call:
        dtype = inputs[0].dtype
        weights = Weights(*(tensor.float() for tensor in inputs[1:]))
        return lambda: _forward(inputs[0].float(), weights).to(dtype)


class ImageConvolution(Workload):
    name = "image_convolution"
    summary = "two 3x3 convolutions (3 to 16 to 32 channels) with ReLU, then max-pooling by 2"
    axes = images.axes(minimum_size=2)
    implementations = (TorchConvolution(), TorchConvolutionViaFloat32())

    def input_bytes(self, parameters: Parameters, dtype: str) -> int:
        return (images.pixels(parameters) * CHANNELS[0] + WEIGHT_COUNT) * DTYPE_BYTES[dtype]

    def output_bytes(self, parameters: Parameters, dtype: str) -> int:
        pooled = parameters["batch"] * (parameters["size"] // 2) ** 2
        return pooled * CHANNELS[2] * DTYPE_BYTES[dtype]

    def flops(self, parameters: Parameters) -> int:
        """2 · 9 · (3 · 16 + 16 · 32) per pixel; bias, ReLU and pooling are left out."""
        return images.pixels(parameters) * 2 * 9 * (3 * 16 + 16 * 32)

    def bytes_moved(self, parameters: Parameters, dtype: str) -> int:
        """Images and weights read once, the pooled result written once."""
        return self.input_bytes(parameters, dtype) + self.output_bytes(parameters, dtype)

    def make_inputs(self, parameters: Parameters, dtype: str, seed: int) -> Tensors:
        batch = torch_support.uniform([images.shape(parameters)], dtype, seed)
        # Weights around zero, so that ReLU has something to cut off.
        return batch + torch_support.uniform(WEIGHT_SHAPES, dtype, seed + 1, low=-1.0)

    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:
        batch = inputs[0]
        weights = [reference.to_float64(tensor) for tensor in inputs[1:]]
        count, _, height, width = output.shape
        return reference.relative_error(
            (reference.take_crop(output, crop), _reference_crop(batch, weights, crop))
            for crop in reference.crops(count, height, width, rng)
        )


def _reference_crop(batch: Tensor, weights: list[Float64Array], crop: Crop) -> Float64Array:
    """The pooled output's crop; zeros continue the image and, again, the first layer's output."""
    first, first_bias, second, second_bias = weights
    size = batch.shape[2:]
    halo = 2
    starts = (2 * crop.top - halo, 2 * crop.left - halo)
    stops = (2 * (crop.top + crop.height) + halo, 2 * (crop.left + crop.width) + halo)
    rows, columns = (np.arange(start, stop) for start, stop in zip(starts, stops, strict=True))
    inside_rows, inside_columns = (
        (lines >= 0) & (lines < length) for lines, length in zip((rows, columns), size, strict=True)
    )
    inside = np.outer(inside_rows, inside_columns)
    window = reference.take(
        batch, crop.image, rows.clip(0, size[0] - 1), columns.clip(0, size[1] - 1)
    )
    hidden = _layer(window * inside, first, first_bias) * inside[1:-1, 1:-1]
    result = _layer(hidden, second, second_bias)
    channels, height, width = result.shape
    pooled: Float64Array = result.reshape(channels, height // 2, 2, width // 2, 2).max(axis=(2, 4))
    return pooled


def _layer(window: Float64Array, weights: Float64Array, bias: Float64Array) -> Float64Array:
    patches = sliding_window_view(window, (3, 3), axis=(1, 2))
    filtered = np.einsum("chwij,ocij->ohw", patches, weights, optimize=True)
    return np.asarray(np.maximum(filtered + bias[:, None, None], 0.0))
