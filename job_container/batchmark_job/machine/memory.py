"""The memory that a row needs, that there is, and that was used; what comes of the want of it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import psutil

from batchmark_job.errors import first_line, one_line
from batchmark_job.machine.host import text_of
from batchmark_job.workloads.base import Implementation, Workload
from batchmark_job.workloads.tensors import Parameters

USABLE_SHARE = 0.9  # libraries keep buffers of their own
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # as in malloc.h

# Where the libraries raise no MemoryError of their own; the first is of torch's CPU allocator.
OUT_OF_MEMORY = (
    "can't allocate",
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "Triton Error [CUDA]: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "DEVICE_ALLOCATION_FAILED",  # cuDNN's, from version 9 on
    "CUFFT_ALLOC_FAILED",
    "Insufficient memory",  # OpenCV's
)


def shortage(
    workload: Workload,
    implementation: Implementation,
    parameters: Parameters,
    dtype: str,
    device: str,
) -> str | None:
    """Why the row does not fit, with both numbers; None if it does."""
    working_set = implementation.working_set_bytes(parameters, dtype)
    if device == "cpu":
        return _compare(working_set, available_host_bytes(), "host memory")
    if too_large := _compare(working_set, available_cuda_bytes(), "GPU memory"):
        return too_large  # at once: the next lines make a user's inputs to learn their size
    # Inputs, their copy in page-locked memory, and the output brought back.
    host = 2 * workload.input_bytes(parameters, dtype) + workload.output_bytes(parameters, dtype)
    return _compare(host, available_host_bytes(), "host memory")


def has_room(needed_bytes: int, device: str) -> bool:
    """Whether the device has room for so many more bytes."""
    available = available_host_bytes() if device == "cpu" else available_cuda_bytes()
    return needed_bytes <= USABLE_SHARE * available


def peak_bytes(device: str, root: Path = Path("/")) -> int | None:
    """The most memory that this process has held so far: on CUDA torch's, on the CPU all of it."""
    if device == "cuda":
        import torch

        return int(torch.cuda.max_memory_allocated())
    kibibytes = _field(root / "proc/self/status", "VmHWM:")
    return None if kibibytes is None else 1024 * kibibytes


def _compare(needed_bytes: int, available_bytes: int, what: str) -> str | None:
    if needed_bytes <= USABLE_SHARE * available_bytes:
        return None
    return (
        f"needs {_gib(needed_bytes)} of {what}, {_gib(available_bytes)} available "
        f"({USABLE_SHARE:.0%} of it may be used)"
    )


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.2f} GiB"


def available_cuda_bytes() -> int:
    import torch

    free_bytes: int = torch.cuda.mem_get_info()[0]
    return free_bytes


def is_out_of_memory(error: BaseException) -> bool:
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(text in str(error) for text in OUT_OF_MEMORY)


def describe_error(error: BaseException) -> str:
    """One line, which tells running out of memory from all other errors."""
    if is_out_of_memory(error):
        return f"out of memory when tried: {first_line(error)}"
    return one_line(error)


def kills_for_memory(root: Path = Path("/")) -> int:
    """How often the kernel has killed a process of this one's control group for want of memory.

    Where no group of version 2 tells it, of the whole machine, and so other containers' kills, too.
    """
    events = [folder / "memory.events" for folder, v2 in _cgroup_folders(root) if v2]
    counts = (_field(file, "oom_kill") for file in (*events, root / "proc/vmstat"))
    return next((count for count in counts if count is not None), 0)


def available_host_bytes(root: Path = Path("/")) -> int:
    """What the machine has left, or less where a control group allows less."""
    machine_bytes: int = psutil.virtual_memory().available
    return max(0, min([machine_bytes, *_cgroup_headrooms(root)]))


def host_memory_bytes(root: Path = Path("/")) -> int:
    """The machine's memory, or the control group's limit where that is less."""
    machine_bytes: int = psutil.virtual_memory().total
    limits = [_limit(folder, v2=v2) for folder, v2 in _cgroup_folders(root)]
    return min([machine_bytes, *(limit for limit in limits if limit)])


def keep_freed_memory() -> None:
    """Let glibc's malloc give each call the pages that the last one freed, until they are returned.

    Otherwise it depends on the rest of the heap whether a call pays for the pages of its output
    (docs/decisions/0011). With another C library it does nothing.
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, -1)


def _cgroup_headrooms(root: Path) -> Iterator[int]:
    for folder, v2 in _cgroup_folders(root):
        limit = _limit(folder, v2=v2)
        used = _number(folder / ("memory.current" if v2 else "memory.usage_in_bytes"))
        if limit is not None and used is not None:
            # Page cache that the kernel gives back under pressure.
            field = "inactive_file" if v2 else "total_inactive_file"
            yield limit - (used - (_field(folder / "memory.stat", field) or 0))


def _cgroup_folders(root: Path) -> Iterator[tuple[Path, bool]]:
    """This process's control groups that govern memory and their parents; True for version 2."""
    for line in text_of(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, v2 = root / "sys/fs/cgroup", True
        elif "memory" in controllers.split(","):
            mount, v2 = root / "sys/fs/cgroup/memory", False
        else:
            continue
        folder = mount / path.lstrip("/")
        # Inside a container the path is the host's, while the mount shows the own group on top.
        while folder != mount:
            yield folder, v2
            folder = folder.parent
        yield mount, v2


def _limit(folder: Path, *, v2: bool) -> int | None:
    return _number(folder / ("memory.max" if v2 else "memory.limit_in_bytes"))


def _field(path: Path, name: str) -> int | None:
    """The number behind a name, in a file of one name a line; None where there is none."""
    lines = map(str.split, text_of(path).splitlines())
    return next((int(words[1]) for words in lines if words[:1] == [name]), None)


def _number(path: Path) -> int | None:
    """A file's number; None for "max" and where there is no file."""
    text = text_of(path).strip()
    return int(text) if text.isdecimal() else None
