"""Collects the machine's fingerprint; a field is None if it can't be determined quickly."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import platform
import subprocess
from functools import cache
from pathlib import Path

import psutil

from batchmark_job.machine import host, memory, metadata, nvml
from batchmark_job.result.document import Device, Environment
from batchmark_job.result.values import MOST_CHARACTERS_OF_NAME

COMMAND_TIMEOUT_SECONDS = 10.0  # judgment: a hanging command must not hold up the job
# How idle threads wait and where they run: OpenMP's variables, GNU's, Intel's and OpenBLAS's own.
THREAD_VARIABLES = (
    "OMP_WAIT_POLICY",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "OMP_DYNAMIC",
    "GOMP_SPINCOUNT",
    "GOMP_CPU_AFFINITY",
    "KMP_BLOCKTIME",
    "KMP_AFFINITY",
    "MKL_DYNAMIC",
    "OPENBLAS_THREAD_TIMEOUT",
)


def describe(compute_threads: int, device: Device) -> Environment:
    """Return this machine's fingerprint, with the measured device's last-level cache."""
    import torch

    gpu = torch.cuda.is_available()
    instance_type = metadata.instance_metadata("instance-type")
    properties = torch.cuda.get_device_properties(0) if gpu else None
    return Environment(
        instance_type=instance_type,
        availability_zone=metadata.instance_metadata("placement/availability-zone"),
        cpu_model=cpu_model(),
        cpu_cores=psutil.cpu_count(logical=False) or psutil.cpu_count() or 1,
        cpu_threads=usable_threads(),
        compute_threads=compute_threads,
        memory_bytes=memory.host_memory_bytes(),
        gpu_model=properties.name if properties else None,
        gpu_count=torch.cuda.device_count() if gpu else 0,
        gpu_memory_bytes=properties.total_memory if properties else None,
        driver_version=driver_version() if gpu else None,
        cuda_version=torch.version.cuda if gpu else None,
        torch_version=str(torch.__version__),
        python_version=platform.python_version(),
        kernel=f"{platform.system()} {platform.release()}",
        image_digest=metadata.image_digest(),
        compute_environment=os.environ.get("AWS_BATCH_CE_NAME") or None,
        last_level_cache_bytes=last_level_cache_bytes(device),
        ami_id=metadata.instance_metadata("ami-id"),
        thread_settings=thread_settings(),
        gpu_application_clock_hz=gpu_application_clock_hz() if gpu else None,
        gpu_daemons=host.gpu_daemons() if gpu else None,
        root_volume=os.environ.get(host.ROOT_VOLUME_VARIABLE) or None if instance_type else None,
        code_version=code_version(),
    )


def thread_settings() -> tuple[str, ...]:
    """Return the THREAD_VARIABLES that are set, as NAME=value."""
    found = ((name, os.environ.get(name)) for name in THREAD_VARIABLES)
    return tuple(f"{name}={value}"[:MOST_CHARACTERS_OF_NAME] for name, value in found if value)


def usable_threads(root: Path = Path("/")) -> int:
    """Count the logical CPUs that this process can use, given its affinity and cgroup quota."""
    threads = len(_usable_cpus())
    quota = _cpu_quota(root)
    return threads if quota is None else max(1, min(threads, math.ceil(quota)))


def usable_cores(root: Path = Path("/")) -> int:
    """Count the physical cores that this process can use; equals usable_threads() without SMT.

    If the kernel does not say which logical CPUs share a core, each counts as one.
    """
    topologies = (root / f"sys/devices/system/cpu/cpu{cpu}/topology" for cpu in _usable_cpus())
    siblings = {host.text_of(folder / "thread_siblings_list") for folder in topologies}
    threads = usable_threads(root)
    return threads if "" in siblings else min(len(siblings), threads)


def last_level_cache_bytes(device: str = "cpu", root: Path = Path("/")) -> int | None:
    """Return the size of the GPU's L2 cache, or the total of the usable CPUs' last-level caches."""
    if device == Device.CUDA:
        import torch

        return int(torch.cuda.get_device_properties(0).L2_cache_size)
    sizes = {}
    for cpu in _usable_cpus():
        caches = []
        for index in (root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index*"):
            with contextlib.suppress(OSError, ValueError):
                size = (index / "size").read_text().strip()
                if (index / "type").read_text().strip() != "Instruction":
                    level = int((index / "level").read_text())
                    shared_by = (index / "shared_cpu_list").read_text()
                    caches.append((level, shared_by, int(size.removesuffix("K")) * 1024))
        if caches:
            level, shared_by, size_bytes = max(caches)
            sizes[level, shared_by] = size_bytes
    return sum(sizes.values()) or None


def _usable_cpus() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _cpu_quota(root: Path) -> float | None:
    """Return the control group's quota (version 2 or 1) in CPUs, or None if there is none."""
    with contextlib.suppress(OSError, ValueError):
        quota, period = (root / "sys/fs/cgroup/cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    with contextlib.suppress(OSError, ValueError):
        quota_us = int((root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text())
        period_us = int((root / "sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text())
        return None if quota_us < 0 else quota_us / period_us
    return None


def cpu_model(root: Path = Path("/")) -> str:
    for line in host.text_of(root / "proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    if platform.system() == "Darwin":
        brand = _command_output("sysctl", "-n", "machdep.cpu.brand_string")
        if brand:
            return brand
    return platform.processor() or platform.machine() or "unknown"


def driver_version() -> str | None:
    """Return the NVIDIA driver's version, or None if NVML does not respond."""
    with contextlib.suppress(Exception):
        return nvml.driver().version
    return None


def gpu_application_clock_hz() -> float | None:
    """Return the first GPU's application clock, or None if there is none or NVML is missing."""
    with contextlib.suppress(Exception):
        return nvml.visible_gpus()[0].application_clock_hz()
    return None


def _command_output(*command: str) -> str | None:
    try:
        finished = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return finished.stdout.strip() or None


@cache
def code_version(package: Path = Path(__file__).parents[1]) -> str:
    """Return the first 12 hex digits of the SHA-256 of all source files in a package.

    The value is the same in an image and in a checkout.
    """
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(package).as_posix()}\n{len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:12]
