"""Shares a row's inputs among its workers in memory, so that they need to be made only once."""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from batchmark_job.machine.host import text_of
from batchmark_job.workloads.tensors import Tensor, Tensors

if TYPE_CHECKING:
    import torch

MOST_SHARE = 1 / 32  # of the machine's memory; several rows keep theirs at a time
ALIGNMENT = 64  # bytes, as in torch's allocator
LENGTH_BYTES = 8
MADV_POPULATE_READ = 22  # as in <asm-generic/mman-common.h>; Python has no name for it


class InputStore:
    """An in-memory file of this process; `path` is None without memfd, and after close()."""

    def __init__(self) -> None:
        self._file: int | None = None
        self.path: str | None = None
        if hasattr(os, "memfd_create"):
            with contextlib.suppress(OSError):
                self._file = os.memfd_create("batchmark-inputs")
                self.path = f"/proc/{os.getpid()}/fd/{self._file}"

    def close(self) -> None:
        """Free the memory; safe to call more than once."""
        if self._file is not None:
            os.close(self._file)
        self._file = self.path = None


class _Stored(NamedTuple):
    """A tensor's position in the file, its shape and its type."""

    offset: int
    elements: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool


def save(path: str, input_sets: Sequence[Tensors]) -> bool:
    """Store the inputs; return False if that fails, or if `load` could not restore them exactly.

    torch.save is not used because reading its archive takes each worker up to 30 ms.
    """
    tensors = [tensor for inputs in input_sets for tensor in inputs]
    distinct = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    if len(distinct) < len(tensors) or not all(map(_is_plain, tensors)):
        return False
    try:
        with open(path, "wb") as file:
            stored = [[_append(tensor, file) for tensor in inputs] for inputs in input_sets]
            ends = file.tell()
            pickle.dump(stored, file)
            file.write(ends.to_bytes(LENGTH_BYTES, "little"))
    except OSError:  # no memory for it
        return False
    return True


def _append(tensor: Tensor, file: BinaryIO) -> _Stored:
    file.write(b"\0" * (-file.tell() % ALIGNMENT))
    offset = file.tell()
    file.write(bytes_of(tensor).numpy().data)
    shape, strides = tuple(tensor.shape), tensor.stride()
    return _Stored(offset, tensor.numel(), tensor.dtype, shape, strides, tensor.requires_grad)


def load(path: str) -> list[Tensors]:
    """Map all input sets into this process, copy-on-write, and page them in."""
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    ends = int.from_bytes(mapped[-LENGTH_BYTES:], "little")
    stored: list[list[_Stored]] = pickle.loads(mapped[ends:])  # noqa: S301 - this job wrote it
    try:
        mapped.madvise(MADV_POPULATE_READ)
    except OSError:  # before Linux 5.14
        np.frombuffer(mapped, dtype=np.uint8)[:: mmap.PAGESIZE].sum()
    return [tuple(_tensor(each, mapped) for each in inputs) for inputs in stored]


def _tensor(stored: _Stored, mapped: mmap.mmap) -> Tensor:
    import torch

    offset, elements, dtype, shape, strides, requires_grad = stored
    flat = torch.frombuffer(mapped, dtype=dtype, count=elements, offset=offset)
    return flat.as_strided(shape, strides).requires_grad_(requires_grad)


def present(inputs: Tensors) -> Tensors:
    """Copy an input set into huge pages if the kernel has them, because mapped pages are small."""
    if not _large_pages():
        return inputs
    return tuple(tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in inputs)


@cache
def _large_pages(root: Path = Path("/")) -> bool:
    """Return whether the kernel provides transparent huge pages, always or on request (madvise).

    Source: admin-guide/mm/transhuge in the Linux documentation.
    """
    setting = text_of(root / "sys/kernel/mm/transparent_hugepage/enabled")
    return "[always]" in setting or "[madvise]" in setting


def bytes_of(tensor: Tensor) -> Tensor:
    """View a tensor's whole storage as bytes, whatever its layout and dtype."""
    import torch

    empty = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return empty.set_(tensor.untyped_storage())


def _is_plain(tensor: Tensor) -> bool:
    import torch

    dense = tensor.is_contiguous() or tensor.is_contiguous(memory_format=torch.channels_last)
    return type(tensor) is torch.Tensor and tensor.is_leaf and dense
