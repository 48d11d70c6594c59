"""Which containers would be root of the engine's machine, and not only of themselves."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

FLAG = "--allow-host-access"
SYSTEM_FOLDERS = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin"),
    *("/sys", "/usr", "/var/lib", "/var/run"),
)
# Disks and memory.
RAW_DEVICES = re.compile(
    r"/dev/(disk/|dm-|kmem|loop|mapper/|md\d|mem|mmcblk|nbd|nvme|port|sd[a-z]|vd[a-z]|xvd[a-z]).*"
)


def refusal(properties: dict[str, Any]) -> str | None:
    """Why a container with these properties is refused by default; None if it is not."""
    found = next(_found(properties), None)
    if found is None:
        return None
    return (
        f"{found} makes a job root of the engine's machine, "
        f"which the local cloud refuses unless it is started with {FLAG}"
    )


def _found(properties: dict[str, Any]) -> Iterator[str]:
    if properties.get("privileged"):
        yield "privileged"
    for volume in properties.get("volumes") or []:
        folder = (volume.get("host") or {}).get("sourcePath") or ""
        if folder.startswith("/") and _is_system(folder):
            yield f"the volume {volume.get('name')!r} of {folder}"
    for device in (properties.get("linuxParameters") or {}).get("devices") or []:
        if RAW_DEVICES.fullmatch(posixpath.normpath(device.get("hostPath") or "")):
            yield f"the device {device['hostPath']}"


def _is_system(folder: str) -> bool:
    """Whether it is a system folder, lies in one or contains one, as `/` does."""
    path = "/" + posixpath.normpath(folder).strip("/")
    return any(
        path == "/" or f"{path}/".startswith(f"{system}/") or f"{system}/".startswith(f"{path}/")
        for system in SYSTEM_FOLDERS
    )
