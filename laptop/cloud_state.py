"""What the local cloud of a deployment holds, and Terraform's state of it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from batchmark.terraform import Terraform
from laptop import objects
from laptop.aws import AwsClients
from laptop.compose import Compose, name_job_image, unname_job_image
from laptop.errors import LaptopError
from laptop.image import publish_stand_in
from laptop.objects import StoredObject
from laptop.session import Clock
from laptop.stack import (
    ROOT,
    TERRAFORM_DATA,
    apply_core_stack,
    aws_environment,
    clean_environment,
)

VOLUME = "cloud"


class Saved(BaseModel):
    """The objects that were in a bucket."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bucket: str
    objects: tuple[StoredObject, ...]


class CloudState:
    """Terraform's state in a deployment's folder `state/`, and what the local cloud holds.

    The cloud keeps all of it in the volume `cloud`. `state/volume` tells which one Terraform's
    state is of: it is written first, so that an apply that broke off goes on where it was.
    `state/image` is the name that the job image got for it.
    """

    def __init__(self, compose: Compose) -> None:
        self._compose = compose
        self._folder = compose.deployment.state
        self._volume = self._folder / "volume"
        self._image = self._folder / "image"
        self.endpoint = compose.deployment.endpoint
        self.aws: Mapping[str, str] = aws_environment(self.endpoint, "laptop")

    def fill(self, clock: Clock) -> None:
        """Apply Terraform to what is there, or anew where the volume is.

        Raises:
            LaptopError: Terraform failed, or its state of a volume that is in use is gone.
        """
        volume = self._identity()
        if not self._volume.exists() or self._volume.read_text() != volume:
            self._begin(volume)
        image = self._apply(clock)
        self._image.write_text(image)
        name_job_image(self._compose, image)
        with closing(AwsClients(self)) as aws:
            publish_stand_in(aws.client("ecr"), image)

    def _begin(self, volume: str) -> None:
        with closing(AwsClients(self)) as aws:
            if aws.is_configured():
                raise LaptopError(
                    f"the local cloud's volume holds what Terraform made, and {self._folder} no "
                    "state of it: put that folder back, or drop both with `make containers-down "
                    "VOLUMES=delete`"
                )
        self._folder.mkdir(parents=True, exist_ok=True)
        for left in self._folder.glob("terraform.tfstate*"):
            left.unlink()
        self._volume.write_text(volume)

    def copy_objects(self, folder: Path) -> int:
        """Save the bucket's objects in `folder`; how many there are."""
        with closing(AwsClients(self)) as aws:
            bucket = aws.config().bucket
            copied = objects.save(aws.client("s3"), bucket, folder)
        saved = Saved(bucket=bucket, objects=tuple(copied))
        (folder / "objects.json").write_text(saved.model_dump_json(indent=1))
        return len(copied)

    def replace_objects(self, folder: Path) -> int:
        """Make the bucket hold what `copy_objects` saved, and nothing else."""
        saved = read_saved(folder)
        with closing(AwsClients(self)) as aws:
            objects.put_back(aws.client("s3"), aws.config().bucket, saved.objects, folder)
        return len(saved.objects)

    def forget(self) -> None:
        """Drop what was kept for a volume that is gone.

        The job image's name goes with the last cloud of this engine: all of them use the same.
        """
        if self._image.exists() and not self._clouds_of_the_engine():
            unname_job_image(self._compose, self._image.read_text())
        shutil.rmtree(self._folder, ignore_errors=True)

    def terraform(self) -> Terraform:
        return Terraform(
            ROOT / "terraform",
            data_dir=TERRAFORM_DATA,
            state=self._folder / "terraform.tfstate",
            env=clean_environment() | aws_environment(self.endpoint, "terraform"),
            log=self._folder / "terraform.log",
        )

    def _apply(self, clock: Clock) -> str:
        image = apply_core_stack(self.terraform(), clock.say)
        clock.say("Terraform: applied")
        return image

    def _clouds_of_the_engine(self) -> list[str]:
        label = f"label=com.docker.compose.volume={VOLUME}"
        return self._compose.docker("volume", "ls", "--quiet", "--filter", label).splitlines()

    def _identity(self) -> str:
        """Names this life of the volume, which a new one of the same name has not."""
        name = f"{self._compose.deployment.project}_{VOLUME}"
        made = self._compose.docker("volume", "inspect", "--format", "{{.CreatedAt}}", name)
        return f"{name} {made.strip()}"


def read_saved(folder: Path) -> Saved:
    """What `folder` says it holds.

    Raises:
        LaptopError: it says nothing that can be read.
    """
    path = folder / "objects.json"
    try:
        return Saved.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise LaptopError(f"{path} is missing") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise LaptopError(f"{path} is no list of objects: {first['msg']}") from None
