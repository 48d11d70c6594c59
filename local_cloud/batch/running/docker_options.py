"""Translates a job's container properties into Docker's options, as the ECS agent does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from docker.types import DeviceRequest, LogConfig, Ulimit

from local_cloud.batch.jobs.container import Container
from local_cloud.batch.jobs.volumes import in_file_system, mounts

MIB = 2**20
SHARES_PER_VCPU = 1024  # as ECS counts CPU units
LEAST_SHARES = 2  # the Linux kernel's minimum
PERMISSIONS = {"READ": "r", "WRITE": "w", "MKNOD": "m"}


def create_options(
    container: Container,
    gpu_ids: Sequence[str],
    *,
    engine_has_gpus: bool,
    file_system: Path | None = None,
) -> dict[str, Any]:
    """Return arguments for docker-py's `containers.create`, except name, labels and environment.

    Raises:
        ValueError: a property is not supported.
    """
    properties = container.properties
    linux = properties.get("linuxParameters") or {}
    options = {
        "command": container.command or None,  # None: the image's own
        **memory(container.requirements.memory_mib, linux),
        **of_linux(linux),
        "cpu_shares": max(LEAST_SHARES, int(container.requirements.vcpus * SHARES_PER_VCPU)),
        "user": properties.get("user"),
        "privileged": bool(properties.get("privileged")),
        "read_only": bool(properties.get("readonlyRootFilesystem")),
        "ulimits": [
            Ulimit(name=limit["name"], soft=limit["softLimit"], hard=limit["hardLimit"])
            for limit in properties.get("ulimits") or []
        ],
        "volumes": list(volumes(properties, file_system)),
        # Not the engine's default: only some drivers let the output be read.
        "log_config": LogConfig(type=LogConfig.types.JSON),
        "use_config_proxy": False,
    }
    if gpu_ids and engine_has_gpus:
        options["device_requests"] = [
            DeviceRequest(device_ids=list(gpu_ids), capabilities=[["gpu"]])
        ]
    return {name: value for name, value in options.items() if value is not None}


def memory(limit_mib: int, linux: dict[str, Any]) -> dict[str, int]:
    """Return memory and swap limits; as on Batch's instances, swap is off without `maxSwap`."""
    max_swap = linux.get("maxSwap")
    limits = {
        "mem_limit": limit_mib * MIB,
        "memswap_limit": (limit_mib + (max_swap or 0)) * MIB,
    }
    if max_swap is not None and linux.get("swappiness") is not None:
        limits["mem_swappiness"] = linux["swappiness"]
    return limits


def of_linux(parameters: dict[str, Any]) -> dict[str, Any]:
    shared_mib = parameters.get("sharedMemorySize")
    return {
        "init": bool(parameters.get("initProcessEnabled")),
        "shm_size": shared_mib * MIB if shared_mib else None,
        "tmpfs": dict(map(tmpfs, parameters.get("tmpfs") or [])),
        "devices": list(map(device, parameters.get("devices") or [])),
    }


def tmpfs(requested: dict[str, Any]) -> tuple[str, str]:
    size = f"size={requested['size']}m"
    return requested["containerPath"], ",".join([size, *(requested.get("mountOptions") or [])])


def device(requested: dict[str, Any]) -> str:
    """Return Docker's option for a host device, granting all permissions unless some are listed."""
    allowed = [PERMISSIONS[name] for name in requested.get("permissions") or PERMISSIONS]
    host_path = requested["hostPath"]
    return f"{host_path}:{requested.get('containerPath') or host_path}:{''.join(allowed)}"


def volumes(properties: dict[str, Any], file_system: Path | None) -> Iterator[str]:
    """Yield bind mounts for host folders; a volume without a folder becomes an anonymous one."""
    for mount in mounts(properties):
        if mount.source is None:
            yield mount.path
            continue
        source = in_file_system(mount.source, file_system) or mount.source
        yield f"{source}:{mount.path}:{'ro' if mount.read_only else 'rw'}"
