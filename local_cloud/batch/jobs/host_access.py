"""Refuses containers that could gain root on the Docker host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

FLAG = "--allow-host-access"
# None of these lies in another, and nothing below them may be mounted: a job could place a symbolic
# link in one, which the next mount would follow.
FOLDER = re.compile(r"/(scratch|sharing|fsx|data|mnt/[A-Za-z0-9_-][A-Za-z0-9._-]*)/?")
FOLDERS = "only /scratch, /sharing, /fsx, /data and /mnt/NAME are allowed"
DEVICE = re.compile(r"/dev/nvidia(\d+|ctl|-modeset|-uvm|-uvm-tools)")
DEVICES = "only NVIDIA's are allowed"


def refusal(properties: dict[str, Any]) -> str | None:
    """Return why a container with these properties is refused by default, or None if it isn't."""
    found = next(_found(properties), None)
    if found is None:
        return None
    return (
        f"{found}: it could give a job root access to the Docker host, so the local cloud "
        f"refuses it unless started with {FLAG}"
    )


def _found(properties: dict[str, Any]) -> Iterator[str]:
    if properties.get("privileged"):
        yield "privileged"
    for volume in properties.get("volumes") or []:
        folder = (volume.get("host") or {}).get("sourcePath")
        if folder and not FOLDER.fullmatch(folder):
            yield f"the volume {volume.get('name')!r} at {folder} ({FOLDERS})"
    for point in properties.get("mountPoints") or []:
        # Docker takes whatever precedes a colon for a folder of its host.
        if ":" in (point.get("containerPath") or ""):
            yield f"the mount point at {point['containerPath']} (it contains a colon)"
    for device in (properties.get("linuxParameters") or {}).get("devices") or []:
        if not DEVICE.fullmatch(device.get("hostPath") or ""):
            yield f"the device {device.get('hostPath')} ({DEVICES})"
