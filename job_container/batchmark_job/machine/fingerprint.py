"""The fingerprint of what a job ran on: None for what can't be found out, no long waits."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import subprocess
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any, Literal

import psutil

from batchmark_job import memory
from batchmark_job.result import Device, Environment

IMDS_URL = "http://169.254.169.254"
HTTP_TIMEOUT_SECONDS = 1.0
COMMAND_TIMEOUT_SECONDS = 10.0


def describe(compute_threads: int, device: Device) -> Environment:
    """Fingerprint this machine, with the cache of the device that is measured; imports torch."""
    import torch

    gpu = torch.cuda.is_available()
    properties = torch.cuda.get_device_properties(0) if gpu else None
    return Environment(
        instance_type=instance_metadata("instance-type"),
        availability_zone=instance_metadata("placement/availability-zone"),
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
        image_digest=image_digest(),
        compute_environment=os.environ.get("AWS_BATCH_CE_NAME") or None,
        last_level_cache_bytes=last_level_cache_bytes(device),
        ami_id=instance_metadata("ami-id"),
        code_version=code_version(),
    )


def usable_threads(root: Path = Path("/")) -> int:
    """Logical CPUs this process may use: its affinity, cut by a control group's quota."""
    threads = len(_usable_cpus())
    quota = _cpu_quota(root)
    return threads if quota is None else max(1, min(threads, math.ceil(quota)))


def usable_cores(root: Path = Path("/")) -> int:
    """Physical cores this process may use, at most usable_threads() and equal to it without SMT.

    Where the kernel does not tell which logical CPUs share a core, each counts as one.
    """
    siblings = set()
    for cpu in _usable_cpus():
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        try:
            siblings.add((topology / "thread_siblings_list").read_text())
        except OSError:
            return usable_threads(root)
    return min(len(siblings), usable_threads(root))


def last_level_cache_bytes(device: str = "cpu", root: Path = Path("/")) -> int | None:
    """A GPU's L2 cache; all last-level caches of the CPUs this process may use, often several."""
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
    """CPUs' worth of time that cgroup version 2 or 1 grants."""
    with contextlib.suppress(OSError, ValueError):
        quota, period = (root / "sys/fs/cgroup/cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    with contextlib.suppress(OSError, ValueError):
        quota_us = int((root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text())
        period_us = int((root / "sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text())
        return None if quota_us < 0 else quota_us / period_us
    return None


def cpu_model(root: Path = Path("/")) -> str:
    with contextlib.suppress(OSError):
        for line in (root / "proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    if platform.system() == "Darwin":
        brand = _command_output("sysctl", "-n", "machdep.cpu.brand_string")
        if brand:
            return brand
    return platform.processor() or platform.machine() or "unknown"


def driver_version() -> str | None:
    output = _command_output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return output.splitlines()[0].strip() if output else None


def _command_output(*command: str) -> str | None:
    try:
        finished = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return finished.stdout.strip() or None


def on_ec2(root: Path = Path("/")) -> bool:
    """Whether the firmware says EC2 (Nitro or Xen); elsewhere the metadata service only hangs."""
    with contextlib.suppress(OSError):
        if (root / "sys/class/dmi/id/sys_vendor").read_text().strip() == "Amazon EC2":
            return True
    with contextlib.suppress(OSError):
        return (root / "sys/hypervisor/uuid").read_text().lower().startswith("ec2")
    return False


def instance_metadata(
    category: Literal["ami-id", "instance-type", "placement/availability-zone"],
    root: Path = Path("/"),
    imds_url: str = IMDS_URL,
) -> str | None:
    """From the instance metadata service, version 2."""
    if not on_ec2(root):
        return None
    token = _http(
        urllib.request.Request(  # noqa: S310 - a fixed http address
            f"{imds_url}/latest/api/token",
            method="PUT",
            headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"},
        )
    )
    if token is None:
        return None
    return _http(
        urllib.request.Request(  # noqa: S310
            f"{imds_url}/latest/meta-data/{category}",
            headers={"X-aws-ec2-metadata-token": token},
        )
    )


@cache
def code_version(package: Path = Path(__file__).parent) -> str:
    """Of all source files below a package: the same in an image and in a checkout."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(package).as_posix()}\n{len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:12]


def image_digest() -> str | None:
    digest = ecs_metadata().get("ImageID")
    return digest if isinstance(digest, str) and digest else None


def ecs_metadata(path: Literal["", "/task"] = "") -> dict[str, Any]:
    """What the ECS agent says of this container, or of its task; empty where there is no agent.

    Source: task metadata endpoint version 4, whose address the agent puts into the environment.
    """
    url = os.environ.get("ECS_CONTAINER_METADATA_URI_V4")
    if not url or not url.startswith("http"):
        return {}
    body = _http(urllib.request.Request(f"{url}{path}"))  # noqa: S310
    with contextlib.suppress(ValueError):
        answer = json.loads(body or "null")
        return answer if isinstance(answer, dict) else {}
    return {}


def _http(request: urllib.request.Request) -> str | None:
    # Neither address is ever behind a proxy.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=HTTP_TIMEOUT_SECONDS) as response:
            text: str = response.read().decode()
    except (OSError, ValueError):
        return None
    return text.strip() or None
