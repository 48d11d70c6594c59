"""Product of two square matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from batchmark_job.workloads import reference, torch_support
from batchmark_job.workloads.base import DTYPE_BYTES, Axis, Implementation, Workload

if TYPE_CHECKING:
    from torch import Tensor

    from batchmark_job.workloads.base import Call, Parameters, Tensors

CHECKED_LINES = 16


class TorchMatmul(Implementation):
    """MKL or oneDNN on the CPU, cuBLAS on CUDA."""

    name = "torch"
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def version(self) -> str:
        return torch_support.version()

    def refusal(self, device: str, dtype: str) -> str | None:
        return super().refusal(device, dtype) or torch_support.native_refusal(device, dtype)

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        return 3 * parameters["size"] ** 2 * DTYPE_BYTES[dtype]

    def prepare(self, inputs: Tensors) -> Call:
        import torch

        left, right = inputs
        product = torch.empty_like(left)
        return lambda: torch.mm(left, right, out=product)


class TorchMatmulViaFloat32(TorchMatmul):
    """For CPUs without 16-bit arithmetic, where torch's own 16-bit product is 100 times slower."""

    name = "torch via float32"
    devices = ("cpu",)
    dtypes = ("float16", "bfloat16")

    def refusal(self, device: str, dtype: str) -> str | None:
        return Implementation.refusal(self, device, dtype)

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        return 3 * parameters["size"] ** 2 * (DTYPE_BYTES[dtype] + DTYPE_BYTES["float32"])

    def prepare(self, inputs: Tensors) -> Call:
        import torch

        left, right = inputs
        product = torch.empty_like(left)
        left32, right32, product32 = (torch.empty_like(left, dtype=torch.float32) for _ in range(3))

        def call() -> Tensor:
            left32.copy_(left)
            right32.copy_(right)
            torch.mm(left32, right32, out=product32)
            return product.copy_(product32)

        return call


class Matmul(Workload):
    name = "matmul"
    summary = "product of two size x size matrices"
    axes = (Axis("size", minimum=1, maximum=200_000),)
    implementations = (TorchMatmul(), TorchMatmulViaFloat32())

    def input_bytes(self, parameters: Parameters, dtype: str) -> int:
        return 2 * parameters["size"] ** 2 * DTYPE_BYTES[dtype]

    def output_bytes(self, parameters: Parameters, dtype: str) -> int:
        return parameters["size"] ** 2 * DTYPE_BYTES[dtype]

    def flops(self, parameters: Parameters) -> int:
        """2 n³: a multiplication and an addition for each of n³ products."""
        return 2 * int(parameters["size"]) ** 3

    def bytes_moved(self, parameters: Parameters, dtype: str) -> int:
        """3 n² elements: both factors read once, the product written once."""
        return 3 * parameters["size"] ** 2 * DTYPE_BYTES[dtype]

    def make_inputs(self, parameters: Parameters, dtype: str, seed: int) -> Tensors:
        shape = (parameters["size"], parameters["size"])
        return torch_support.uniform((shape, shape), dtype, seed, low=-1.0)

    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:
        """Compare the crossings of a few rows and columns, the first and last among them."""
        left, right = inputs
        size = left.shape[0]
        rows, columns = (
            np.unique([0, size - 1, *rng.integers(size, size=CHECKED_LINES)]) for _ in range(2)
        )
        some_rows = reference.to_float64(left[rows.tolist()])
        some_columns = reference.to_float64(right[:, columns.tolist()])
        result = reference.to_float64(output[rows.tolist()][:, columns.tolist()])
        return reference.relative_error([(result, some_rows @ some_columns)])
