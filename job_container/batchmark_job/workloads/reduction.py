"""The sum of many numbers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from batchmark_job.workloads.base import DTYPE_BYTES, Axis, Implementation, Workload
from batchmark_job.workloads.support import reference, torch_calls
from batchmark_job.workloads.support.cuda_graph import CudaGraph
from batchmark_job.workloads.support.torch_calls import TorchImplementation
from batchmark_job.workloads.tensors import Call, Parameters, Tensor, Tensors

CHUNK = 1 << 22  # bounds the check's memory: 32 MiB in float64


class TorchSum(TorchImplementation):
    """Torch's sum: partial sums on all CPU threads, or CUB's two passes on CUDA."""

    dtypes: ClassVar[tuple[str, ...]] = Implementation.dtypes
    needs_native_arithmetic = False

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the memory for numbers and sum, plus torch's copy of 16-bit numbers on a CPU."""
        number = DTYPE_BYTES[dtype]
        result = DTYPE_BYTES[_result_dtype(dtype)]
        number += result if result > number else 0
        return parameters["size"] * number + DTYPE_BYTES["float64"]

    def prepare(self, inputs: Tensors) -> Call:
        (numbers,) = inputs
        result_dtype = torch_calls.torch_dtype(_result_dtype(str(numbers.dtype)[len("torch.") :]))
        return lambda: numbers.sum(dtype=result_dtype)


class NumpySum(TorchSum):
    """NumPy's pairwise summation on one thread."""

    name = "numpy"
    devices = ("cpu",)
    dtypes = ("float32", "float64")
    single_threaded = True
    library = "numpy"

    def prepare(self, inputs: Tensors) -> Call:
        import torch

        numbers = inputs[0].numpy()
        return lambda: torch.from_numpy(numbers.sum(keepdims=True))[0]


class OpencvSum(TorchSum):
    """OpenCV's sum on one thread, in one float64 accumulator: too imprecise for float64 numbers."""

    name = "opencv"
    devices = ("cpu",)
    dtypes = ("float32",)
    single_threaded = True
    library = "cv2"

    def prepare(self, inputs: Tensors) -> Call:
        import cv2
        import torch

        numbers, result = inputs[0].numpy(), torch.empty((), dtype=inputs[0].dtype)
        return lambda: result.fill_(cv2.sumElems(numbers)[0])


class Reduction(Workload):
    name = "reduction"
    summary = "sum of `size` numbers"
    axes = (Axis("size", minimum=1, maximum=10**11),)
    implementations = (TorchSum(), NumpySum(), OpencvSum(), CudaGraph(TorchSum()))

    def tolerance(self, dtype: str) -> float:
        """Allow for log₂(10¹¹) rounding errors of half an ulp in partial sums of exact inputs."""
        return 37 * 2.0 ** (-53 if dtype == "float64" else -24)

    def input_bytes(self, parameters: Parameters, dtype: str) -> int:
        return parameters["size"] * DTYPE_BYTES[dtype]

    def output_bytes(self, parameters: Parameters, dtype: str) -> int:  # noqa: ARG002
        return DTYPE_BYTES[_result_dtype(dtype)]

    def flops(self, parameters: Parameters) -> int:
        """Count the additions: one fewer than there are numbers."""
        return parameters["size"] - 1

    def make_inputs(self, parameters: Parameters, dtype: str, seed: int) -> Tensors:
        # Positive, so that nothing cancels and the error is meaningful.
        return torch_calls.uniform([(parameters["size"],)], dtype, seed)

    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:  # noqa: ARG002
        """Compare with a sum computed in extended precision."""
        total = np.longdouble(0)
        for chunk in inputs[0].split(CHUNK):  # type: ignore[no-untyped-call]
            total += np.sum(reference.to_float64(chunk), dtype=np.longdouble)
        expected = np.asarray(total, dtype=np.float64)
        return reference.relative_error([(reference.to_float64(output), expected)])


def _result_dtype(dtype: str) -> str:
    """Return the sum's dtype, at least float32: float16 ends at 65,504, bfloat16 counts to 256."""
    return "float64" if dtype == "float64" else "float32"
