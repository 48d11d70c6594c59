"""What the implementations by torch share, and calls of torch that take names of dtypes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from batchmark_job.workloads.base import DTYPE_BYTES, Implementation

if TYPE_CHECKING:
    import torch

    from batchmark_job.workloads.base import Tensors


class TorchImplementation(Implementation):
    """What torch computes on both devices."""

    name = "torch"
    library = "torch"
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    dtypes: ClassVar[tuple[str, ...]] = tuple(DTYPE_BYTES)
    needs_native_arithmetic: ClassVar[bool] = True  # else 16-bit types do without on the CPU

    def refusal(self, device: str, dtype: str) -> str | None:
        native = native_refusal(device, dtype) if self.needs_native_arithmetic else None
        return super().refusal(device, dtype) or native


def threads() -> int:
    """How many threads the job gives each library."""
    import torch

    return torch.get_num_threads()


def native_refusal(device: str, dtype: str) -> str | None:
    """Why a device has no native arithmetic for a dtype; None if it has.

    Without it, torch computes with 16-bit types on the CPU element by element.
    """
    if device == "cpu" and dtype == "tf32":
        return "tf32 is a format of CUDA's tensor cores; measure float32 on the CPU"
    if device != "cpu" or dtype not in {"float16", "bfloat16"}:
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


def depthwise_refusal(device: str, dtype: str) -> str | None:
    """Why not to convolve with one filter per channel; None if nothing speaks against it.

    With torch 2.13.0 on a CPU with float16 arithmetic (avx512_fp16), oneDNN's kernel for it did not
    return from images wider than some 30 pixels. Only the job's timeout ends such a hang.
    """
    if device == "cpu" and dtype == "float16":
        return "torch's depthwise convolution in float16 may never return on a CPU"
    return None


def torch_dtype(dtype: str) -> torch.dtype:
    """The type of the tensors that hold this dtype: tf32 is kept as float32."""
    import torch

    found: torch.dtype = getattr(torch, "float32" if dtype == "tf32" else dtype)
    return found


@contextmanager
def precision(dtype: str) -> Iterator[None]:
    """Let float32 products and convolutions on CUDA use tf32 for the dtype tf32, and only then."""
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
    """Let cuDNN try its algorithms on shapes it has not met yet and keep the fastest."""
    import torch

    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def uniform(
    shapes: Iterable[tuple[int, ...]], dtype: str, seed: int, *, low: float = 0.0
) -> Tensors:
    """Random host tensors between `low` and 1."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    return tuple(
        torch.empty(shape, dtype=torch_dtype(dtype)).uniform_(low, 1.0, generator=generator)
        for shape in shapes
    )


def normal(shapes: Iterable[tuple[int, ...]], dtype: str, seed: int) -> Tensors:
    """Random host tensors, normally distributed around 0 with standard deviation 1."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    return tuple(
        torch.empty(shape, dtype=torch_dtype(dtype)).normal_(generator=generator)
        for shape in shapes
    )
