"""Two 3×3 convolutions, 3 → 16 → 32 channels, each with ReLU, then 2×2 max-pooling."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from batchmark_job.workloads.base import DTYPE_BYTES, BufferedImplementation, Workload
from batchmark_job.workloads.support import images, reference, torch_calls, work_sharing
from batchmark_job.workloads.support.cuda_graph import CudaGraph
from batchmark_job.workloads.support.reference import Crop, Float64Array
from batchmark_job.workloads.support.torch_calls import TorchImplementation
from batchmark_job.workloads.tensors import Call, Parameters, Tensor, Tensors

CHANNELS = (images.CHANNELS, 16, 32)  # as in the published comparison (docs/measurement.md)
WEIGHT_SHAPES = ((16, 3, 3, 3), (16,), (32, 16, 3, 3), (32,))
INDEX_BYTES = 8  # torch also finds each maximum's position, needed or not
# What the layers hold of a tile takes 6 MB in float32.
TILE_HEIGHT, TILE_WIDTH = 128, 256
WEIGHT_COUNT = 16 * 3 * 9 + 16 + 32 * 16 * 9 + 32


class Weights(NamedTuple):
    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor


class TorchConvolution(TorchImplementation):
    """Channels-last convolutions without autograd, using oneDNN on the CPU and cuDNN on CUDA."""

    name = "torch channels-last"

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the peak memory, reached in the second convolution or in pooling with its indices.

        The input and the previous call's result are held throughout.
        """
        pooled = CHANNELS[2] // 4
        always = CHANNELS[0] + pooled
        second_convolution = (always + CHANNELS[1] + CHANNELS[2]) * DTYPE_BYTES[dtype]
        pooling = (always + CHANNELS[2] + pooled) * DTYPE_BYTES[dtype] + pooled * INDEX_BYTES
        pixel = max(second_convolution + _unfolded_bytes(dtype), pooling)
        return _with_buffers(images.pixels(parameters) * pixel, dtype)

    def arrange(self, inputs: Tensors) -> Tensors:
        return tuple(images.channels_last(tensor) for tensor in inputs)

    def prepare(self, inputs: Tensors) -> Call:
        import torch.nn.functional as F  # noqa: N812

        batch, weights = inputs[0], Weights(*inputs[1:])

        def call() -> Tensor:
            with torch_calls.cudnn_search():
                hidden = F.conv2d(batch, weights.first, weights.first_bias, padding=1).relu_()
                result = F.conv2d(hidden, weights.second, weights.second_bias, padding=1)
            # ReLU and maximum commute, and pooling leaves a quarter of the values.
            return F.max_pool2d(result, 2).relu_()

        return call


class FusedConvolution(TorchConvolution):
    """cuDNN's fused convolution, which also adds the bias and applies ReLU."""

    name = "cudnn fused"
    devices = ("cuda",)

    def prepare(self, inputs: Tensors) -> Call:
        import torch
        import torch.nn.functional as F  # noqa: N812

        batch, weights = inputs[0], Weights(*inputs[1:])

        def layer(batch: Tensor, kernels: Tensor, bias: Tensor) -> Tensor:
            one = (1, 1)
            return torch.cudnn_convolution_relu(batch, kernels, bias, one, one, one, 1)

        def call() -> Tensor:
            with torch_calls.cudnn_search():
                hidden = layer(batch, weights.first, weights.first_bias)
                return F.max_pool2d(layer(hidden, weights.second, weights.second_bias), 2)

        return call


class TiledConvolution(BufferedImplementation, TorchConvolution):
    """Computes both layers tile by tile to keep intermediate values in the cache."""

    name = "torch channels-last in tiles"
    devices = ("cpu",)
    compute_dtype: ClassVar[str | None] = None  # None: the data's own dtype

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the memory for input, output and, per thread, both layers' values for one tile."""
        computed = self.compute_dtype or dtype
        height, width = (min(parameters["size"], most) + 4 for most in (TILE_HEIGHT, TILE_WIDTH))
        pixel = (sum(CHANNELS) + CHANNELS[2]) * DTYPE_BYTES[computed] + _unfolded_bytes(computed)
        own = images.pixels(parameters) * (CHANNELS[0] + CHANNELS[2] // 4) * DTYPE_BYTES[dtype]
        return own + _with_buffers(torch_calls.threads() * height * width * pixel, computed)

    def buffers(self, inputs: Tensors) -> Tensors:
        import torch

        count, _, height, width = inputs[0].shape
        shape = (count, CHANNELS[2], height // 2, width // 2)
        return (torch.empty(shape, dtype=inputs[0].dtype, memory_format=torch.channels_last),)

    def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Call:
        import torch

        batch = inputs[0]
        (pooled,) = buffers
        dtype = torch_calls.torch_dtype(self.compute_dtype) if self.compute_dtype else batch.dtype
        weights = Weights(*(tensor.to(dtype) for tensor in inputs[1:]))
        count, _, height, width = batch.shape

        def work(tile: Crop) -> None:
            with torch.inference_mode():  # threads do not inherit inference mode
                _convolve_tile(batch, tile, weights, pooled)

        tiles = _tiles(count, height, width, torch_calls.threads())
        return work_sharing.filling(pooled, tiles, work)


class TiledConvolutionViaFloat32(TiledConvolution):
    """Computes 16-bit types in float32, for CPUs without 16-bit arithmetic."""

    name = "torch channels-last in tiles via float32"
    dtypes = ("float16", "bfloat16")
    needs_native_arithmetic = False
    compute_dtype = "float32"


def _tiles(count: int, height: int, width: int, threads: int) -> list[Crop]:
    """Cut the area pooling reads into tiles with even sides, one or more per thread if possible."""
    height, width = height // 2 * 2, width // 2 * 2
    shared = -(-height // (-(-threads // count)))
    tile_height, tile_width = min(shared + shared % 2, TILE_HEIGHT), TILE_WIDTH
    return [
        Crop(image, top, left, min(tile_height, height - top), min(tile_width, width - left))
        for image in range(count)
        for top in range(0, height, tile_height)
        for left in range(0, width, tile_width)
    ]


def _convolve_tile(batch: Tensor, tile: Crop, weights: Weights, pooled: Tensor) -> None:
    """Compute and store one tile's pooled result; the tile's sides must be even."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    image, top, left, tile_height, tile_width = tile
    bottom, right = top + tile_height, left + tile_width
    height, width = batch.shape[2:]
    window = batch[
        image : image + 1, :, max(top - 2, 0) : bottom + 2, max(left - 2, 0) : right + 2
    ].to(weights.first.dtype)
    beyond = (
        max(2 - left, 0),
        max(right + 2 - width, 0),
        max(2 - top, 0),
        max(bottom + 2 - height, 0),
    )
    hidden = F.conv2d(F.pad(window, beyond), weights.first, weights.first_bias).relu_()
    # The second layer sees zeros around the image, not the first layer's output there.
    for axis, outside in ((3, (left == 0, right == width)), (2, (top == 0, bottom == height))):
        for place, zero in zip((0, -1), outside, strict=True):
            if zero:
                hidden.select(axis, place).zero_()
    result = F.conv2d(hidden, weights.second, weights.second_bias)
    result = torch.maximum(result[..., 0::2], result[..., 1::2])
    result = torch.maximum(result[..., 0::2, :], result[..., 1::2, :]).relu_()
    pooled[image : image + 1, :, top // 2 : bottom // 2, left // 2 : right // 2] = result


def _unfolded_bytes(dtype: str) -> int:
    """Return the bytes per pixel of the patches torch unfolds for float64, which oneDNN lacks."""
    return 9 * CHANNELS[1] * DTYPE_BYTES[dtype] if dtype == "float64" else 0


def _with_buffers(held_bytes: int, dtype: str) -> int:
    """Add the weights' size, and a tenth for the library's own buffers."""
    return held_bytes + held_bytes // 10 + WEIGHT_COUNT * DTYPE_BYTES[dtype]


class ImageConvolution(Workload):
    name = "image_convolution"
    summary = "two 3x3 convolutions (3 to 16 to 32 channels) with ReLU, then max-pooling by 2"
    axes = images.axes(minimum_size=2)
    implementations = (
        TorchConvolution(),
        FusedConvolution(),
        TiledConvolution(),
        TiledConvolutionViaFloat32(),
        CudaGraph(TorchConvolution()),
        CudaGraph(FusedConvolution()),
    )

    def input_bytes(self, parameters: Parameters, dtype: str) -> int:
        return (images.pixels(parameters) * CHANNELS[0] + WEIGHT_COUNT) * DTYPE_BYTES[dtype]

    def output_bytes(self, parameters: Parameters, dtype: str) -> int:
        pooled = parameters["batch"] * (parameters["size"] // 2) ** 2
        return pooled * CHANNELS[2] * DTYPE_BYTES[dtype]

    def flops(self, parameters: Parameters) -> int:
        """Count 2 · 9 · (3 · 16 + 16 · 32) operations per pixel, without bias, ReLU and pooling."""
        return images.pixels(parameters) * 2 * 9 * (3 * 16 + 16 * 32)

    def make_inputs(self, parameters: Parameters, dtype: str, seed: int) -> Tensors:
        batch = torch_calls.uniform([images.shape(parameters)], dtype, seed)
        # Weights around zero, so that ReLU has something to cut off.
        return batch + torch_calls.uniform(WEIGHT_SHAPES, dtype, seed + 1, low=-1.0)

    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:
        batch = inputs[0]
        weights = [reference.to_float64(tensor) for tensor in inputs[1:]]
        count, _, height, width = output.shape
        return reference.relative_error(
            (reference.take_crop(output, crop), _reference_crop(batch, weights, crop))
            for crop in reference.crops(count, height, width, rng)
        )


def _reference_crop(batch: Tensor, weights: list[Float64Array], crop: Crop) -> Float64Array:
    """Compute a crop of the output, padding the image and the first layer's output with zeros."""
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
