"""Docker on this machine, and whether the job image can be had with it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from laptop.errors import LaptopError
from laptop.stack import ROOT, path_of_jobs

PUBLISH = ROOT / "job_container" / "publish.sh"
# Of both images and what they are built from, as docs/first-apply.md counts it.
BUILD_BYTES = 14e9


def docker(*arguments: str, given: str = "") -> str:
    """What a command of Docker answers to this input.

    Raises:
        LaptopError: Docker is missing, or the command failed.
    """
    try:
        done = subprocess.run(
            ["docker", *arguments], input=given, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise LaptopError(
            "docker is needed for the job image and can't be started: install it"
        ) from error
    if done.returncode:
        raise LaptopError(f"docker {arguments[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout.strip()


def pull(image: str) -> None:
    docker("pull", "--platform", "linux/amd64", image)


def refuse_without_image(image: str | None) -> None:
    """Refuse where Docker can't bring the user's image, or without one, can't build ours.

    Raises:
        LaptopError: no engine answers, or it can't be built; the message says what to do.
    """
    if image is not None:
        docker("version")
        return
    _refuse_unbuildable()
    _refuse_full_disk(Path(docker("info", "--format", "{{.DockerRootDir}}")))


def _refuse_unbuildable() -> None:
    """Raise LaptopError if publish.sh can't build what is committed."""
    done = subprocess.run(
        [PUBLISH, "--check"],
        env={**os.environ, "PATH": path_of_jobs()},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LaptopError(f"{done.stderr.strip()}. Or give IMAGE=, a job image that there is")


def _refuse_full_disk(images: Path) -> None:
    """Raise LaptopError where an engine's folder, on this machine, has too little room."""
    if not images.exists():  # it is in a virtual machine, such as Docker Desktop's
        return
    free = shutil.disk_usage(images).free
    if free < BUILD_BYTES:
        raise LaptopError(
            f"{images} has {free / 1e9:.0f} GB free, and building the job image takes about "
            f"{BUILD_BYTES / 1e9:.0f}: make room (`docker system prune`), or give IMAGE=, a job "
            "image that there is"
        )
