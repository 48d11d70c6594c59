"""A row's inputs, made once and kept in memory for all its workers: making them takes longest."""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from batchmark_job.workloads.base import Tensors

MOST_SHARE = 1 / 32  # of the machine's memory; several rows keep theirs at a time


class InputStore:
    """A file without a name that this process holds in memory; `path` is None without memfds."""

    def __init__(self) -> None:
        self._file: int | None = None
        self.path: str | None = None
        if hasattr(os, "memfd_create"):
            with contextlib.suppress(OSError):
                self._file = os.memfd_create("batchmark-inputs")
                self.path = f"/proc/{os.getpid()}/fd/{self._file}"

    def close(self) -> None:
        """Free the memory; harmless when repeated."""
        if self._file is not None:
            os.close(self._file)
        self._file = self.path = None


def save(path: str, input_sets: Sequence[Tensors]) -> bool:
    """Keep the inputs; False where they are such that `load` would not give the same."""
    import torch

    tensors = [tensor for inputs in input_sets for tensor in inputs]
    distinct = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    if len(distinct) < len(tensors) or not all(map(_is_plain, tensors)):
        return False
    try:
        torch.serialization.set_crc32_options(False)
        torch.save(list(input_sets), path)
    except (OSError, RuntimeError):  # no memory for it
        return False
    return True


def load(path: str) -> list[Tensors]:
    """All input sets; `present` makes one ready for use."""
    import torch

    found: list[Tensors] = torch.load(path, mmap=True, weights_only=False)
    return found


def present(inputs: Tensors) -> Tensors:
    """An input set in pages such as it was made in, all of them present.

    It is mapped, and copied where it is written to; but mapped pages are small, so it is copied at
    once where the kernel makes large pages of whatever a program allocates.
    """
    if _large_pages():
        return tuple(
            tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in inputs
        )
    for tensor in inputs:
        _bytes_of(tensor)[:: mmap.PAGESIZE].sum()
    return inputs


@cache
def _large_pages(root: Path = Path("/")) -> bool:
    """Whether transparent huge pages are for all programs (Linux: admin-guide/mm/transhuge)."""
    with contextlib.suppress(OSError):
        return "[always]" in (root / "sys/kernel/mm/transparent_hugepage/enabled").read_text()
    return False


def _bytes_of(tensor: Tensor) -> Tensor:
    import torch

    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


def _is_plain(tensor: Tensor) -> bool:
    import torch

    dense = tensor.is_contiguous() or tensor.is_contiguous(memory_format=torch.channels_last)
    return type(tensor) is torch.Tensor and tensor.is_leaf and dense
