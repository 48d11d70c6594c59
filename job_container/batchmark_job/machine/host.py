"""The host of a job's container: what its kernel reports, and what can affect timings."""

from __future__ import annotations

import os
import re
from pathlib import Path

# The root volume's kind, size and speed, set by Terraform: the container can't find out.
ROOT_VOLUME_VARIABLE = "BATCHMARK_ROOT_VOLUME"
# Daemons that share or watch a GPU, by the path of the socket on which each listens.
# Source: units of ECS's GPU image, https://github.com/aws/amazon-ecs-ami/tree/main/scripts/al2023/gpu.
GPU_DAEMONS = {
    "DCGM": re.compile(r".*/nv-hostengine"),
    "MPS": re.compile(r".*/[^/]*mps[^/]*/control"),
    "persistence": re.compile(r".*/nvidia-persistenced/socket"),
}
PACKAGES = Path(__file__).parents[2]  # the folder that holds this package
CONTAINER_ENGINE = re.compile(r".*/(docker|containerd)\.sock")


def text_of(file: Path) -> str:
    """Return the content of a kernel file, or an empty string if it can't be read."""
    try:
        return file.read_text()
    except OSError:
        return ""


def gpu_daemons(root: Path = Path("/")) -> str | None:
    """Return which GPU_DAEMONS run on the host, or "none"; None if its sockets can't be seen.

    Linux shows a network namespace's sockets to every process in it, and Batch runs single-node
    jobs in the host's namespace. If no socket of Docker or containerd is listed, this is a
    different namespace.
    """
    lines = text_of(root / "proc/net/unix").splitlines()
    paths = [words[7] for line in lines if len(words := line.split(maxsplit=7)) == 8]
    if not any(map(CONTAINER_ENGINE.fullmatch, paths)):
        return None
    found = [name for name, socket in GPU_DAEMONS.items() if any(map(socket.fullmatch, paths))]
    return ", ".join(found) or "none"


def python_path() -> str:
    """Return the PYTHONPATH that lets another process find this package."""
    return os.pathsep.join(filter(None, (str(PACKAGES), os.environ.get("PYTHONPATH"))))
