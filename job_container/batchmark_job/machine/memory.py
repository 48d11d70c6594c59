"""Determines needed, available and peak memory, and recognises out-of-memory errors."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import psutil

from batchmark_job.errors import first_line, one_line
from batchmark_job.machine.host import text_of
from batchmark_job.workloads.base import Implementation, Workload
from batchmark_job.workloads.tensors import Parameters

USABLE_SHARE = 0.9  # headroom for the libraries' own buffers
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # as in malloc.h

# Out-of-memory messages of libraries that raise no MemoryError; the first is torch's CPU allocator.
OUT_OF_MEMORY = (
    "can't allocate",
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "Triton Error [CUDA]: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "DEVICE_ALLOCATION_FAILED",  # cuDNN 9 and later
    "CUFFT_ALLOC_FAILED",
    "Insufficient memory",  # OpenCV
)


def shortage(
    workload: Workload,
    implementation: Implementation,
    parameters: Parameters,
    dtype: str,
    device: str,
) -> str | None:
    """Return why the row does not fit, with needed and available memory, or None if it fits."""
    working_set = implementation.working_set_bytes(parameters, dtype)
    if device == "cpu":
        return _compare(working_set, available_host_bytes(), "host memory")
    if too_large := _compare(working_set, available_cuda_bytes(), "GPU memory"):
        # check before the next lines: they make a user's inputs to learn their size
        return too_large
    # Inputs, their copy in pinned memory, and the output copied back.
    host = 2 * workload.input_bytes(parameters, dtype) + workload.output_bytes(parameters, dtype)
    return _compare(host, available_host_bytes(), "host memory")


def has_room(needed_bytes: int, device: str) -> bool:
    """Return whether this many more bytes fit on the device."""
    available = available_host_bytes() if device == "cpu" else available_cuda_bytes()
    return needed_bytes <= USABLE_SHARE * available


def peak_bytes(device: str, root: Path = Path("/")) -> int | None:
    """Return this process's peak memory so far: torch's GPU memory on CUDA, else host memory."""
    if device == "cuda":
        import torch

        return int(torch.cuda.max_memory_allocated())
    kibibytes = _field(root / "proc/self/status", "VmHWM:")
    return None if kibibytes is None else 1024 * kibibytes


def _compare(needed_bytes: int, available_bytes: int, what: str) -> str | None:
    if needed_bytes <= USABLE_SHARE * available_bytes:
        return None
    return (
        f"needs {_gib(needed_bytes)} of {what}, but only {USABLE_SHARE:.0%} of the "
        f"{_gib(available_bytes)} available may be used"
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
    """Return the error on one line, which begins with "ran out of memory" if that is the cause."""
    if is_out_of_memory(error):
        return f"ran out of memory: {first_line(error)}"
    return one_line(error)


def kills_for_memory(root: Path = Path("/")) -> int:
    """Count the processes in this control group that the kernel's OOM killer has killed.

    Without a version 2 group, the count covers the whole machine, including other containers.
    """
    events = [folder / "memory.events" for folder, v2 in _cgroup_folders(root) if v2]
    counts = (_field(file, "oom_kill") for file in (*events, root / "proc/vmstat"))
    return next((count for count in counts if count is not None), 0)


def available_host_bytes(root: Path = Path("/")) -> int:
    """Return the memory available on the machine, or less if a control group limits it."""
    machine_bytes: int = psutil.virtual_memory().available
    return max(0, min([machine_bytes, *_cgroup_headrooms(root)]))


def host_memory_bytes(root: Path = Path("/")) -> int:
    """Return the machine's memory, or the control group's limit if that's lower."""
    machine_bytes: int = psutil.virtual_memory().total
    limits = [_limit(folder, v2=v2) for folder, v2 in _cgroup_folders(root)]
    return min([machine_bytes, *(limit for limit in limits if limit)])


def keep_freed_memory() -> None:
    """Make glibc's malloc keep freed pages, so that the next call reuses them.

    Otherwise the state of the heap decides whether a call spends time mapping its output's pages
    (docs/decisions/0011). This does nothing with other C libraries.
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, -1)


def _cgroup_headrooms(root: Path) -> Iterator[int]:
    for folder, v2 in _cgroup_folders(root):
        limit = _limit(folder, v2=v2)
        used = _number(folder / ("memory.current" if v2 else "memory.usage_in_bytes"))
        if limit is not None and used is not None:
            # Page cache that the kernel reclaims under pressure.
            field = "inactive_file" if v2 else "total_inactive_file"
            yield limit - (used - (_field(folder / "memory.stat", field) or 0))


def _cgroup_folders(root: Path) -> Iterator[tuple[Path, bool]]:
    """Yield this process's memory control groups and their parents, with True for version 2."""
    for line in text_of(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, v2 = root / "sys/fs/cgroup", True
        elif "memory" in controllers.split(","):
            mount, v2 = root / "sys/fs/cgroup/memory", False
        else:
            continue
        folder = mount / path.lstrip("/")
        # In a container the path is the host's, but the mount shows the container's group at its
        # root.
        while folder != mount:
            yield folder, v2
            folder = folder.parent
        yield mount, v2


def _limit(folder: Path, *, v2: bool) -> int | None:
    return _number(folder / ("memory.max" if v2 else "memory.limit_in_bytes"))


def _field(path: Path, name: str) -> int | None:
    """Return the number after a name in a file of "name number" lines, or None if it's missing."""
    lines = map(str.split, text_of(path).splitlines())
    return next((int(words[1]) for words in lines if words[:1] == [name]), None)


def _number(path: Path) -> int | None:
    """Return the number in a file, or None for "max" or a missing file."""
    text = text_of(path).strip()
    return int(text) if text.isdecimal() else None
