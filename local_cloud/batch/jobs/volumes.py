"""Reads the mount points from a container's properties."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from local_cloud.file_systems.hosts import MOUNT_POINT


class Mount(NamedTuple):
    """A mount point; `source` is a folder on the host, or None for a new volume."""

    path: str
    source: str | None
    read_only: bool


def below(folder: str, path: str) -> str | None:
    """Return a host path relative to a folder, or None if the path is outside the folder."""
    normal = posixpath.normpath(f"/{path}").replace("//", "/", 1)
    return normal[len(folder) :].lstrip("/") if f"{normal}/".startswith(f"{folder}/") else None


def in_file_system(source: str, file_system: Path | None) -> Path | None:
    """Return the local folder for a host path, or None if it is not in the file system."""
    rest = below(MOUNT_POINT, source)
    return None if file_system is None or rest is None else file_system / rest


def mounts(properties: dict[str, Any]) -> Iterator[Mount]:
    """Yield all of a container's mount points.

    Raises:
        ValueError: a mount point's volume is missing or not supported.
    """
    by_name = {volume.get("name"): volume for volume in properties.get("volumes") or []}
    for point in properties.get("mountPoints") or []:
        name = point.get("sourceVolume")
        volume = by_name.get(name)
        if volume is None:
            raise ValueError(
                f"mountPoints refers to the volume {name!r}, but volumes defines only "
                f"{list(by_name)}"
            )
        if volume.get("efsVolumeConfiguration"):
            raise ValueError(
                f"the volume {name!r} is on EFS, which the local cloud does not support"
            )
        source = (volume.get("host") or {}).get("sourcePath") or None
        yield Mount(point["containerPath"], source, bool(point.get("readOnly")))
