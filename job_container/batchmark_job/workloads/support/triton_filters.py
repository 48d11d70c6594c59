"""Image filters, each implemented as a single Triton kernel.

Only torch's CUDA build comes with triton, so it is imported where it is used.
"""

from __future__ import annotations

import importlib.util
import math
import os
import shutil
from collections.abc import Iterable
from typing import Any

from batchmark_job.workloads.base import Implementation
from batchmark_job.workloads.support import images, triton_stub
from batchmark_job.workloads.tensors import Call, Parameters, Tensor, Tensors

WARPS = 2  # at 128 registers a thread, PROGRAMS programs use a multiprocessor's 65,536
LANES = 32 * WARPS
VECTOR_BYTES = 16  # columns per lane
PROGRAMS = 8  # programs that a multiprocessor holds at once; a blur is limited by its 128 registers
NEARLY_FULL = 0.9  # of a wave (see `strip_rows`); judgment
STRIP_ROWS = range(8, 257, 8)


class TritonFilter(Implementation):
    """Base class of the filters, which are channels-first and always sum in float32."""

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

        halo = len(self.taps) // 2
        return _launcher(triton_kernels.blur, inputs[0], halo, taps=self.taps)


class TritonSobel(TritonFilter):
    name = "triton one-pass"

    def prepare(self, inputs: Tensors) -> Call:
        from batchmark_job.workloads.support import triton_kernels

        return _launcher(triton_kernels.sobel, inputs[0], halo=1)


def missing() -> str | None:
    """Return why Triton can't compile here, or None if it can."""
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed; it comes with torch's CUDA build for Linux"
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    if not (compiler or triton_stub.shipped()):
        return "triton can't find a C compiler to build its launcher; install gcc or set CC"
    return None


def _launcher(kernel: Any, batch: Tensor, halo: int, **constants: Any) -> Call:
    """Return a call that runs the kernel on all of a batch's planes, reusing one result tensor."""
    import torch

    triton_stub.install()
    result = torch.empty_like(batch)
    *outer, height, width = batch.shape
    planes = math.prod(outer)
    vector = VECTOR_BYTES // batch.element_size()
    tiles = math.ceil(width / (LANES * vector))
    rows = strip_rows(planes * tiles, height, halo, held_programs())
    strips = math.ceil(height / rows)
    launch = kernel[(tiles * strips * planes,)]

    def call() -> Tensor:
        shape = (height, width, tiles, strips, rows)
        launch(batch, result, *shape, lanes=LANES, vector=vector, num_warps=WARPS, **constants)
        return result

    return call


def held_programs() -> int:
    """Return how many Triton programs the GPU can run at once."""
    import torch

    return PROGRAMS * int(torch.cuda.get_device_properties(0).multi_processor_count)


def strip_rows(columns_of_strips: int, height: int, halo: int, held: int) -> int:
    """Estimate the fastest number of rows per strip for a GPU that runs `held` programs at once.

    Taller strips reread fewer halo rows; shorter ones split a small image into more programs.
    """

    def seconds(rows: int) -> float:
        waves = columns_of_strips * math.ceil(height / rows) / held
        # The last wave is half full on average; one that is nearly full may become two.
        return (rows + 2 * halo) * (waves + 0.5 if waves > NEARLY_FULL else 1.0)

    return min(STRIP_ROWS, key=seconds)
