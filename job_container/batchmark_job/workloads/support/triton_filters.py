"""Image filters as one Triton kernel each.

triton comes with torch's CUDA build alone, so it is imported where it is used.
"""

from __future__ import annotations

import importlib.util
import math
import os
import shutil
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from batchmark_job.workloads.base import Implementation
from batchmark_job.workloads.support import images, triton_stub

if TYPE_CHECKING:
    from torch import Tensor

    from batchmark_job.workloads.base import Call, Parameters, Tensors

WARPS = 2
LANES = 32 * WARPS
PROGRAMS = 1024  # about what a data-centre GPU holds at once
# A taller strip reads its halo less often; a lower one leaves more programs for a small image.
STRIP_ROWS = (16, 64)


class TritonFilter(Implementation):
    """What the filters share: sums in float32 whatever the dtype, channels first."""

    library = "triton"
    devices = ("cuda",)
    dtypes = ("float32", "float16", "bfloat16")

    def refusal(self, device: str, dtype: str) -> str | None:
        return super().refusal(device, dtype) or missing()

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        return 2 * images.batch_bytes(parameters, dtype)

    def arrange(self, inputs: Tensors) -> Tensors:
        return (inputs[0].contiguous(),)


class TritonBlur(TritonFilter):
    name = "triton one-pass"

    def __init__(self, taps: Iterable[float]) -> None:
        self.taps = tuple(float(tap) for tap in taps)

    def prepare(self, inputs: Tensors) -> Call:
        from batchmark_job.workloads.support import triton_kernels

        return _launcher(triton_kernels.blur, inputs[0], taps=self.taps)


class TritonSobel(TritonFilter):
    name = "triton one-pass"

    def prepare(self, inputs: Tensors) -> Call:
        from batchmark_job.workloads.support import triton_kernels

        return _launcher(triton_kernels.sobel, inputs[0])


def missing() -> str | None:
    """What keeps Triton from compiling here."""
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed; torch's CUDA build for Linux brings it"
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    if not (compiler or triton_stub.shipped()):
        return "triton finds no C compiler to build its launcher with; install gcc or set CC"
    return None


def _launcher(kernel: Any, batch: Tensor, **constants: Any) -> Call:
    """The kernel on all planes of a batch, each into the same place of one result."""
    import torch

    from batchmark_job.workloads.support.triton_kernels import VECTOR

    triton_stub.install()
    result = torch.empty_like(batch)
    *outer, height, width = batch.shape
    planes = math.prod(outer)
    tiles = math.ceil(width / (LANES * VECTOR.value))
    rows = _strip_rows(planes * tiles, height)
    strips = math.ceil(height / rows)
    launch = kernel[(tiles * strips * planes,)]

    def call() -> Tensor:
        shape = (height, width, tiles, strips, rows)
        launch(batch, result, *shape, lanes=LANES, num_warps=WARPS, **constants)
        return result

    return call


def _strip_rows(columns_of_strips: int, height: int) -> int:
    lowest, tallest = STRIP_ROWS
    return min(max(columns_of_strips * height // PROGRAMS, lowest), tallest)
