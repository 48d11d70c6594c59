"""The host below a job's container: what its kernel says, and what may change what is measured."""

from __future__ import annotations

import os
import re
from pathlib import Path

# Kind, size and speed; Terraform gives it to jobs: the container itself can't find out.
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
    """What the kernel says in a file; nothing where there is none, or it may not be read."""
    try:
        return file.read_text()
    except OSError:
        return ""


def gpu_daemons(root: Path = Path("/")) -> str | None:
    """Those of GPU_DAEMONS that run on the host, or "none"; None where its sockets can't be seen.

    Linux lists the sockets of a network to everybody in it, and Batch gives a job of one node the
    host's own network. Where the engine's socket is not seen, this is another network.
    """
    lines = text_of(root / "proc/net/unix").splitlines()
    paths = [words[7] for line in lines if len(words := line.split(maxsplit=7)) == 8]
    if not any(map(CONTAINER_ENGINE.fullmatch, paths)):
        return None
    found = [name for name, socket in GPU_DAEMONS.items() if any(map(socket.fullmatch, paths))]
    return ", ".join(found) or "none"


def python_path() -> str:
    """PYTHONPATH of another process that is to find this package wherever this one found it."""
    return os.pathsep.join(filter(None, (str(PACKAGES), os.environ.get("PYTHONPATH"))))
