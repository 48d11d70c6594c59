"""The names that the job image has on the engine where a deployment's jobs run."""

from __future__ import annotations

from laptop.compose import Compose, version
from laptop.errors import LaptopError


def job_image(compose: Compose) -> str:
    """What the job image is called before Terraform has named its repository."""
    return compose.env.get("JOB_IMAGE") or f"batchmark-job:{version()}"


def name_job_image(compose: Compose, image: str) -> None:
    """Give the job image the name that job definitions have: it is in no registry to pull from.

    Raises:
        LaptopError: it was never built, or the caller's own is not here.
    """
    ours = job_image(compose)
    try:
        compose.docker("tag", ours, image)
    except LaptopError as error:
        if compose.env.get("JOB_IMAGE"):
            raise LaptopError(f"JOB_IMAGE={ours}: `docker pull` it first: {error}") from error
        if image not in image_ids(compose):
            raise LaptopError(
                f"there is neither an image {ours} nor {image}: leave out BUILD=no, so that it is "
                "built"
            ) from error


def unname_job_image(compose: Compose, image: str) -> None:
    """Take that name away again, where another one keeps the image."""
    there = image_ids(compose)
    if image in there and list(there.values()).count(there[image]) > 1:
        compose.docker("image", "rm", image)


def image_ids(compose: Compose) -> dict[str, str]:
    """The engine's images, by name."""
    template = "{{.Repository}}:{{.Tag}} {{.ID}}"
    listed = compose.docker("image", "ls", "--no-trunc", "--format", template).splitlines()
    return {name: number for name, _, number in (line.partition(" ") for line in listed)}
