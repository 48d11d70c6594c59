"""The mount points in a container's properties."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from local_cloud.file_systems.hosts import MOUNT_POINT


class Mount(NamedTuple):
    """A mount point; `source` is a folder of the host, None for a new volume."""

    path: str
    source: str | None
    read_only: bool


def below(folder: str, path: str) -> str | None:
    """A host path relative to a folder that contains or equals it; None if it lies elsewhere."""
    normal = posixpath.normpath(f"/{path}").replace("//", "/", 1)
    return normal[len(folder) :].lstrip("/") if f"{normal}/".startswith(f"{folder}/") else None


def in_file_system(source: str, file_system: Path | None) -> Path | None:
    """The file system's folder for a host path; None if the path lies elsewhere."""
    rest = below(MOUNT_POINT, source)
    return None if file_system is None or rest is None else file_system / rest


def mounts(properties: dict[str, Any]) -> Iterator[Mount]:
    """All mount points of a container.

    Raises:
        ValueError: a mount point's volume is missing or not supported.
    """
    by_name = {volume.get("name"): volume for volume in properties.get("volumes") or []}
    for point in properties.get("mountPoints") or []:
        name = point.get("sourceVolume")
        volume = by_name.get(name)
        if volume is None:
            raise ValueError(
                f"mountPoints uses the volume {name!r}, but volumes defines only {list(by_name)}"
            )
        if volume.get("efsVolumeConfiguration"):
            raise ValueError(
                f"the volume {name!r} is on EFS, which the local cloud does not support"
            )
        source = (volume.get("host") or {}).get("sourcePath") or None
        yield Mount(point["containerPath"], source, bool(point.get("readOnly")))
