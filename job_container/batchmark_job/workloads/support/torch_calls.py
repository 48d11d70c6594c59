"""Code shared by torch implementations, and torch calls that take dtype names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from batchmark_job.workloads.base import DTYPE_BYTES, Implementation
from batchmark_job.workloads.tensors import Tensors

if TYPE_CHECKING:
    import torch

# The first compute capability with tf32 and bfloat16 multiplication.
# Source: CUDA C++ Programming Guide, table "Arithmetic instructions".
TENSOR_CORES_OF_AMPERE = (8, 0)


class TorchImplementation(Implementation):
    """Base class of implementations that use torch; by default, on the CPU and on CUDA."""

    name = "torch"
    library = "torch"
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    dtypes: ClassVar[tuple[str, ...]] = tuple(DTYPE_BYTES)
    # otherwise 16-bit types are refused on CPUs without such arithmetic
    needs_native_arithmetic: ClassVar[bool] = True

    def refusal(self, device: str, dtype: str) -> str | None:
        native = native_refusal(device, dtype) if self.needs_native_arithmetic else None
        return super().refusal(device, dtype) or native


def threads() -> int:
    """Return how many threads the job lets each library use."""
    import torch

    return torch.get_num_threads()


def native_refusal(device: str, dtype: str) -> str | None:
    """Return a message if a device lacks native arithmetic for a dtype, or None if it has it.

    Without it, torch computes 16-bit types on the CPU element by element, and treats tf32 and
    bfloat16 on older GPUs like float32.
    """
    if device == "cuda":
        return _old_gpu_refusal(dtype) if dtype in {"tf32", "bfloat16"} else None
    if dtype == "tf32":
        return "tf32 requires CUDA tensor cores; measure float32 on the CPU instead"
    if dtype not in {"float16", "bfloat16"}:
        return None
    import torch

    supported = {
        "float16": torch.ops.mkldnn._is_mkldnn_fp16_supported,
        "bfloat16": torch.ops.mkldnn._is_mkldnn_bf16_supported,
    }
    try:
        native = bool(supported[dtype]())
    except (AttributeError, RuntimeError):  # a torch built without oneDNN
        native = False
    return None if native else f"this CPU has no {dtype} arithmetic"


def _old_gpu_refusal(dtype: str) -> str | None:
    import torch

    capability = torch.cuda.get_device_capability()
    if capability >= TENSOR_CORES_OF_AMPERE:
        return None
    return (
        f"{torch.cuda.get_device_name()} has compute capability {_dotted(capability)}, but "
        f"{dtype} requires {_dotted(TENSOR_CORES_OF_AMPERE)}"
    )


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))


def depthwise_refusal(device: str, dtype: str) -> str | None:
    """Return why a depthwise convolution is unsafe, or None if it is safe.

    With torch 2.13.0 on a CPU with float16 arithmetic (avx512_fp16), oneDNN's kernel never returned
    for images wider than about 30 pixels. Only the job's timeout ends such a hang.
    """
    if device == "cpu" and dtype == "float16":
        return "torch's float16 depthwise convolution can hang on a CPU"
    return None


def torch_dtype(dtype: str) -> torch.dtype:
    """Return the type of tensors that store this dtype; tf32 is stored as float32."""
    import torch

    found: torch.dtype = getattr(torch, "float32" if dtype == "tf32" else dtype)
    return found


@contextmanager
def precision(dtype: str) -> Iterator[None]:
    """Let float32 products and convolutions on CUDA use tf32 only if the dtype is tf32."""
    import torch

    allowed = dtype == "tf32"
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@contextmanager
def cudnn_search() -> Iterator[None]:
    """Let cuDNN try all its algorithms on each new shape and keep the fastest."""
    import torch

    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.benchmark_limit
    cudnn.benchmark, cudnn.benchmark_limit = True, 0  # no limit; torch's default is 10
    try:
        yield
    finally:
        cudnn.benchmark, cudnn.benchmark_limit = before


def uniform(
    shapes: Iterable[tuple[int, ...]], dtype: str, seed: int, *, low: float = 0.0
) -> Tensors:
    """Make random host tensors, uniformly distributed between `low` and 1."""
    empty, generator = _to_draw(shapes, dtype, seed)
    return tuple(tensor.uniform_(low, 1.0, generator=generator) for tensor in empty)


def normal(shapes: Iterable[tuple[int, ...]], dtype: str, seed: int) -> Tensors:
    """Make random host tensors, normally distributed with mean 0 and standard deviation 1."""
    empty, generator = _to_draw(shapes, dtype, seed)
    return tuple(tensor.normal_(generator=generator) for tensor in empty)


def _to_draw(
    shapes: Iterable[tuple[int, ...]], dtype: str, seed: int
) -> tuple[Iterator[torch.Tensor], torch.Generator]:
    import torch

    empty = (torch.empty(shape, dtype=torch_dtype(dtype)) for shape in shapes)
    return empty, torch.Generator().manual_seed(seed)
