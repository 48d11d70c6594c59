"""Runs Docker on this machine, and checks whether it can provide the job image."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from laptop.errors import LaptopError
from laptop.stack import ROOT, path_of_jobs

PUBLISH = ROOT / "job_container" / "publish.sh"
# For both images and their build stages, as estimated in docs/first-apply.md.
BUILD_BYTES = 14e9


def docker(*arguments: str, given: str = "") -> str:
    """Run a docker command with the given input, and return its output.

    Raises:
        LaptopError: Docker is missing, or the command failed.
    """
    try:
        done = subprocess.run(
            ["docker", *arguments], input=given, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise LaptopError(
            "docker is needed for the job image but can't be started: install it"
        ) from error
    if done.returncode:
        raise LaptopError(f"docker {arguments[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout.strip()


def pull(image: str) -> None:
    docker("pull", "--platform", "linux/amd64", image)


def refuse_without_image(image: str | None) -> None:
    """Refuse to go on if Docker isn't available, or can't build our image when the user gave none.

    Raises:
        LaptopError: no engine responds, or the image can't be built; the message says what to do.
    """
    if image is not None:
        docker("version")
        return
    _refuse_unbuildable()
    _refuse_full_disk(Path(docker("info", "--format", "{{.DockerRootDir}}")))


def _refuse_unbuildable() -> None:
    """Raise LaptopError if publish.sh can't build the current commit."""
    done = subprocess.run(
        [PUBLISH, "--check"],
        env={**os.environ, "PATH": path_of_jobs()},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LaptopError(
            f"{done.stderr.strip()}. Alternatively, specify an existing job image with IMAGE="
        )


def _refuse_full_disk(images: Path) -> None:
    """Raise LaptopError if the engine's folder on this machine has too little space."""
    if not images.exists():  # the folder is in a virtual machine, such as Docker Desktop's
        return
    free = shutil.disk_usage(images).free
    if free < BUILD_BYTES:
        raise LaptopError(
            f"{images} has {free / 1e9:.0f} GB free, but building the job image takes about "
            f"{BUILD_BYTES / 1e9:.0f} GB: free some space (`docker system prune`), or specify an "
            "existing job image with IMAGE="
        )
