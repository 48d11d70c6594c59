"""Sorts random keys."""

from __future__ import annotations

import sys
from typing import ClassVar

import numpy as np

from batchmark_job.workloads.base import (
    DTYPE_BYTES,
    Axis,
    BufferedImplementation,
    Implementation,
    Workload,
)
from batchmark_job.workloads.support import reference, torch_calls
from batchmark_job.workloads.support.torch_calls import TorchImplementation
from batchmark_job.workloads.tensors import Call, Parameters, Tensor, Tensors

INDEX_BYTES = 8  # torch also tracks where each key came from, needed or not
CHUNK = 1 << 22  # bounds the check's memory: 32 MiB in float64
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class NumpySort(BufferedImplementation):
    """NumPy's sort on one thread, using AVX-512 or AVX2 if the CPU has it.

    Sorting two halves on two threads and merging them with NumPy's stable sort took 1.2 to 1.9
    times as long.
    """

    name = "numpy"
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    dtypes = ("float32", "float64", "float16")
    single_threaded = True
    library = "numpy"

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        return 2 * parameters["size"] * DTYPE_BYTES[dtype]

    def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Call:
        (output,) = buffers
        keys, ordered = inputs[0].numpy(), output.numpy()

        def call() -> Tensor:
            np.copyto(ordered, keys)
            ordered.sort()
            return output

        return call


class TorchSort(BufferedImplementation, TorchImplementation):
    """Torch's sort, which is CUB's radix sort on CUDA; moving indices as well costs bandwidth."""

    dtypes = Implementation.dtypes
    needs_native_arithmetic = False

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the memory for keys, output and a buffer, plus indices because CUB sorts pairs."""
        pair = DTYPE_BYTES[dtype] + INDEX_BYTES
        return parameters["size"] * 3 * pair

    def buffers(self, inputs: Tensors) -> Tensors:
        import torch

        (keys,) = inputs
        return torch.empty_like(keys), torch.empty_like(keys, dtype=torch.int64)

    def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Call:
        import torch

        (keys,) = inputs
        return lambda: torch.sort(keys, out=buffers)[0]


class Sort(Workload):
    name = "sort"
    summary = "ascending sort of `size` random keys; torch also moves their int64 indices"
    axes = (Axis("size", minimum=1, maximum=10**11),)
    implementations = (NumpySort(), TorchSort())

    def tolerance(self, dtype: str) -> float:  # noqa: ARG002
        """Allow practically no error, since keys are moved but never changed."""
        return sys.float_info.min

    def input_bytes(self, parameters: Parameters, dtype: str) -> int:
        return parameters["size"] * DTYPE_BYTES[dtype]

    def flops(self, parameters: Parameters) -> None:
        """Return None, since comparisons are not floating-point operations."""

    def make_inputs(self, parameters: Parameters, dtype: str, seed: int) -> Tensors:
        return torch_calls.uniform([(parameters["size"],)], dtype, seed, low=-1.0)

    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:  # noqa: ARG002
        """Return 0 if the output is the input in ascending order, or else a positive error."""
        (keys,) = inputs
        ascends = bool((output[1:] >= output[:-1]).all())
        if ascends and _fingerprint(output) == _fingerprint(keys):
            return 0.0
        expected = np.sort(reference.to_float64(keys), kind="stable")
        error = reference.relative_error([(reference.to_float64(output), expected)])
        return error if error != 0 else np.inf


def _fingerprint(keys: Tensor) -> int:
    """Sum scrambled bit patterns, so that the result doesn't depend on the keys' order."""
    total = 0
    for chunk in keys.split(CHUNK):  # type: ignore[no-untyped-call]
        # Adding 0 turns -0 into 0, which sorts alike.
        scrambled = (reference.to_float64(chunk) + 0.0).view(np.uint64) * MULTIPLIER
        scrambled ^= scrambled >> np.uint64(29)
        total += int(np.sum(scrambled * MULTIPLIER, dtype=np.uint64))
    return total % 2**64
