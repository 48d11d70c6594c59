"""Builds and tags the job image on the engine that runs a deployment's jobs."""

from __future__ import annotations

from laptop.containers.compose import Compose, version
from laptop.errors import LaptopError
from laptop.stack import ROOT

TARGET = "cpu"


def job_image(compose: Compose) -> str:
    """Return the job image's name: `JOB_IMAGE` if it is set, or that of the image built here."""
    return compose.env.get("JOB_IMAGE") or f"batchmark-job:{version()}"


def build_job_image(compose: Compose) -> None:
    base, wheels = compose.env.get("PYTHON_IMAGE"), compose.env.get("WHEELS")
    compose.docker(
        *("build", "--quiet", "--target", TARGET),
        *(("--build-arg", f"PYTHON_IMAGE={base}") if base else ()),
        *("--build-arg", f"VERSION={version()}"),
        *(("--build-context", f"wheels={wheels}") if wheels else ()),
        *("--tag", job_image(compose), str(ROOT / "job_container")),
    )


def tag_for_jobs(compose: Compose, image: str) -> None:
    """Give the job image the name used in job definitions, since no registry can serve that name.

    Raises:
        LaptopError: the image was never built, or the user's own image is not on this engine.
    """
    source = job_image(compose)
    try:
        compose.docker("tag", source, image)
    except LaptopError as error:
        if compose.env.get("JOB_IMAGE"):
            raise LaptopError(
                f"can't use JOB_IMAGE={source}: run `docker pull` first: {error}"
            ) from error
        if image not in image_ids(compose):
            raise LaptopError(
                f"neither image {source} nor {image} exists: omit BUILD=no to build one"
            ) from error


def untag_for_jobs(compose: Compose, image: str) -> None:
    """Remove the name that job definitions use, unless it is the image's only name."""
    ids = image_ids(compose)
    if image in ids and list(ids.values()).count(ids[image]) > 1:
        compose.docker("image", "rm", image)


def image_ids(compose: Compose) -> dict[str, str]:
    template = "{{.Repository}}:{{.Tag}} {{.ID}}"
    listed = compose.docker("image", "ls", "--no-trunc", "--format", template).splitlines()
    return dict(line.split() for line in listed)
