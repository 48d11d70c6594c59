"""A job's container properties in the engine's words, as the ECS agent translates them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docker.types import DeviceRequest, LogConfig, Ulimit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from local_cloud.batch.container import Container

MIB = 2**20
SHARES_PER_VCPU = 1024
LEAST_SHARES = 2
PERMISSIONS = {"READ": "r", "WRITE": "w", "MKNOD": "m"}


def create_options(
    container: Container, gpu_ids: Sequence[str], *, engine_has_gpus: bool
) -> dict[str, Any]:
    """Keyword arguments of docker-py's `containers.create`, apart from names and the environment.

    Raises:
        ValueError: a property can't be had here.
    """
    properties = container.properties
    linux = properties.get("linuxParameters") or {}
    options = {
        "command": container.command or None,  # none: the image's own
        **memory(container.requirements.memory_mib, linux),
        "cpu_shares": max(LEAST_SHARES, int(container.requirements.vcpus * SHARES_PER_VCPU)),
        "user": properties.get("user"),
        "privileged": bool(properties.get("privileged")),
        "read_only": bool(properties.get("readonlyRootFilesystem")),
        "init": bool(linux.get("initProcessEnabled")),
        "shm_size": linux["sharedMemorySize"] * MIB if linux.get("sharedMemorySize") else None,
        "tmpfs": dict(map(tmpfs, linux.get("tmpfs") or [])),
        "devices": [device(each) for each in linux.get("devices") or []],
        "ulimits": [
            Ulimit(name=each["name"], soft=each["softLimit"], hard=each["hardLimit"])
            for each in properties.get("ulimits") or []
        ],
        "volumes": list(
            volumes(properties.get("volumes") or [], properties.get("mountPoints") or [])
        ),
        # Whatever the engine's default is: the output is read back from this one.
        "log_config": LogConfig(type=LogConfig.types.JSON),
        "use_config_proxy": False,
    }
    if gpu_ids and engine_has_gpus:
        options["device_requests"] = [
            DeviceRequest(device_ids=list(gpu_ids), capabilities=[["gpu"]])
        ]
    return {name: value for name, value in options.items() if value is not None}


def memory(limit_mib: int, linux: dict[str, Any]) -> dict[str, int]:
    """The hard limit, and swap only where it is asked for: Batch's instances have none else."""
    max_swap = linux.get("maxSwap")
    limits = {
        "mem_limit": limit_mib * MIB,
        "memswap_limit": (limit_mib + (max_swap or 0)) * MIB,
    }
    if max_swap is not None and linux.get("swappiness") is not None:
        limits["mem_swappiness"] = linux["swappiness"]
    return limits


def tmpfs(asked: dict[str, Any]) -> tuple[str, str]:
    """A path in the container and its mount options."""
    size = f"size={asked['size']}m"
    return asked["containerPath"], ",".join([size, *(asked.get("mountOptions") or [])])


def device(asked: dict[str, Any]) -> str:
    """A device of the host; all permissions unless some are named."""
    allowed = [PERMISSIONS[name] for name in asked.get("permissions") or PERMISSIONS]
    host_path = asked["hostPath"]
    return f"{host_path}:{asked.get('containerPath') or host_path}:{''.join(allowed)}"


def volumes(
    declared: Iterable[dict[str, Any]], mount_points: Iterable[dict[str, Any]]
) -> Iterable[str]:
    """Binds of the engine's own folders; a volume without a folder is a fresh, empty one."""
    by_name = {each.get("name"): each for each in declared}
    for mount in mount_points:
        name, path = mount.get("sourceVolume"), mount["containerPath"]
        volume = by_name.get(name)
        if volume is None:
            msg = f"mountPoints name the volume {name!r}, and volumes hold {list(by_name)}"
            raise ValueError(msg)
        if volume.get("efsVolumeConfiguration"):
            msg = f"the volume {name!r} lies on EFS, which the local cloud does not have"
            raise ValueError(msg)
        source = (volume.get("host") or {}).get("sourcePath")
        if source:
            yield f"{source}:{path}:{'ro' if mount.get('readOnly') else 'rw'}"
        else:
            yield path
