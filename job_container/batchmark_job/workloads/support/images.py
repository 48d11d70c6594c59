"""Code shared by image workloads: batches of square RGB images, N × 3 × size × size."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from batchmark_job.workloads.base import DTYPE_BYTES, Axis, BufferedImplementation, Workload
from batchmark_job.workloads.support import reference, torch_calls
from batchmark_job.workloads.support.reference import Float64Array
from batchmark_job.workloads.tensors import Parameters, Tensor, Tensors

CHANNELS = 3


def axes(minimum_size: int) -> tuple[Axis, ...]:
    return (
        Axis("size", minimum=minimum_size, maximum=65_536),
        Axis("batch", minimum=1, maximum=65_536, default=1),
    )


def pixels(parameters: Parameters) -> int:
    return parameters["batch"] * parameters["size"] ** 2


def shape(parameters: Parameters) -> tuple[int, int, int, int]:
    return (parameters["batch"], CHANNELS, parameters["size"], parameters["size"])


def batch_bytes(parameters: Parameters, dtype: str) -> int:
    return pixels(parameters) * CHANNELS * DTYPE_BYTES[dtype]


def row_bytes(parameters: Parameters, dtype: str) -> int:
    return parameters["size"] * CHANNELS * DTYPE_BYTES[dtype]


def channels_last(tensor: Tensor) -> Tensor:
    import torch

    if tensor.dim() != 4:
        return tensor
    return tensor.contiguous(memory_format=torch.channels_last)


class ScipyFilter(BufferedImplementation):
    """An image filter from scipy.ndimage, running on one thread and summing in float64."""

    name = library = "scipy"
    devices = ("cpu",)
    dtypes = ("float32", "float64")
    single_threaded = True
    batches_written: ClassVar[int]  # the output and temporaries

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the memory for the input, the output and any temporaries."""
        return (1 + self.batches_written) * batch_bytes(parameters, dtype)

    def buffers(self, inputs: Tensors) -> Tensors:
        import torch

        return tuple(torch.empty_like(inputs[0]) for _ in range(self.batches_written))


class ImageFilter(Workload):
    """A filter that turns images into images, with reflected borders."""

    halo: int  # how many pixels away its result depends on

    @abstractmethod
    def expected(self, window: Float64Array) -> Float64Array:
        """Compute the result for a window, given its channels with a halo around them."""

    def input_bytes(self, parameters: Parameters, dtype: str) -> int:
        return batch_bytes(parameters, dtype)

    def make_inputs(self, parameters: Parameters, dtype: str, seed: int) -> Tensors:
        return torch_calls.uniform([shape(parameters)], dtype, seed)

    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:
        count, _, height, width = output.shape
        return reference.relative_error(
            (
                reference.take_crop(output, crop),
                self.expected(reference.reflected_window(inputs[0], crop, self.halo)),
            )
            for crop in reference.crops(count, height, width, rng)
        )
