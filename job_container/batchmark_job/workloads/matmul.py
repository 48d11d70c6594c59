"""The product of two square matrices."""

from __future__ import annotations

import numpy as np

from batchmark_job.workloads.base import DTYPE_BYTES, Axis, BufferedImplementation, Workload
from batchmark_job.workloads.support import reference, torch_calls
from batchmark_job.workloads.support.cuda_graph import CudaGraph
from batchmark_job.workloads.support.torch_calls import TorchImplementation
from batchmark_job.workloads.tensors import Call, Parameters, Tensor, Tensors

CHECKED_LINES = 16  # judgment: rows and columns at random, besides the ends; more take longer


class TorchMatmul(BufferedImplementation, TorchImplementation):
    """Torch's product: cuBLAS on CUDA; on the CPU, MKL, or oneDNN for 16-bit types."""

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        return 3 * parameters["size"] ** 2 * DTYPE_BYTES[dtype]

    def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Call:
        import torch

        left, right = inputs
        (product,) = buffers
        return lambda: torch.mm(left, right, out=product)


class TorchMatmulViaFloat32(TorchMatmul):
    """A product via float32, 100 times faster than torch's on CPUs without 16-bit arithmetic."""

    name = "torch via float32"
    devices = ("cpu",)
    dtypes = ("float16", "bfloat16")
    needs_native_arithmetic = False

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        return 3 * parameters["size"] ** 2 * (DTYPE_BYTES[dtype] + DTYPE_BYTES["float32"])

    def buffers(self, inputs: Tensors) -> Tensors:
        import torch

        product = torch.empty_like(inputs[0])
        return product, *(torch.empty_like(product, dtype=torch.float32) for _ in range(3))

    def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Call:
        import torch

        left, right = inputs
        product, left32, right32, product32 = buffers

        def call() -> Tensor:
            left32.copy_(left)
            right32.copy_(right)
            torch.mm(left32, right32, out=product32)
            return product.copy_(product32)

        return call


class NumpyMatmul(TorchMatmul):
    """NumPy's product, computed by the OpenBLAS bundled in NumPy's wheels."""

    name = "numpy"
    devices = ("cpu",)
    dtypes = ("float32", "float64")

    def version(self) -> str:
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{np.__version__}, {blas['name']} {blas['version']}"

    def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Call:
        left, right = (tensor.numpy() for tensor in inputs)
        (product,) = buffers
        target = product.numpy()

        def call() -> Tensor:
            np.matmul(left, right, out=target)
            return product

        return call


class Matmul(Workload):
    name = "matmul"
    summary = "product of two size x size matrices"
    axes = (Axis("size", minimum=1, maximum=200_000),)
    implementations = (
        TorchMatmul(),
        NumpyMatmul(),
        TorchMatmulViaFloat32(),
        CudaGraph(TorchMatmul()),
    )

    def input_bytes(self, parameters: Parameters, dtype: str) -> int:
        return 2 * parameters["size"] ** 2 * DTYPE_BYTES[dtype]

    def output_bytes(self, parameters: Parameters, dtype: str) -> int:
        return parameters["size"] ** 2 * DTYPE_BYTES[dtype]

    def flops(self, parameters: Parameters) -> int:
        """Count 2 n³ operations: n³ multiplications and as many additions."""
        return 2 * int(parameters["size"]) ** 3

    def make_inputs(self, parameters: Parameters, dtype: str, seed: int) -> Tensors:
        shape = (parameters["size"], parameters["size"])
        return torch_calls.uniform((shape, shape), dtype, seed, low=-1.0)

    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:
        """Check elements where some rows and columns cross, including the first and last ones."""
        left, right = inputs
        size = left.shape[0]
        rows, columns = (
            np.unique([0, size - 1, *rng.integers(size, size=CHECKED_LINES)]) for _ in range(2)
        )
        some_rows = reference.to_float64(left[rows.tolist()])
        some_columns = reference.to_float64(right[:, columns.tolist()])
        result = reference.to_float64(output[rows.tolist()][:, columns.tolist()])
        return reference.relative_error([(result, some_rows @ some_columns)])
