"""What the local cloud of a deployment holds, and Terraform's state of it."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from batchmark.terraform import Terraform
from laptop import objects
from laptop.aws import AwsClients
from laptop.compose import Compose
from laptop.errors import LaptopError
from laptop.image import publish_stand_in
from laptop.job_image import name_job_image, unname_job_image
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
MARK = "/laptop/mark"  # a parameter of SSM


class Saved(BaseModel):
    """The objects that were in a bucket."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bucket: str
    objects: tuple[StoredObject, ...]


class CloudState:
    """Terraform's state in a deployment's folder `state/`, and what the local cloud holds.

    The cloud keeps all of it in the volume `cloud`. A mark in both tells that they belong
    together; both have it before Terraform begins, so that an apply that broke off goes on.
    `state/image` is the name that the job image got for it.
    """

    def __init__(self, compose: Compose) -> None:
        self._compose = compose
        self._folder = compose.deployment.state
        self._mark = self._folder / "mark"
        self._image = self._folder / "image"
        self.endpoint = compose.deployment.endpoint
        self.aws: Mapping[str, str] = aws_environment(self.endpoint, "laptop")

    def fill(self, clock: Clock) -> None:
        """Apply Terraform to what is there, or anew where the cloud is.

        Raises:
            LaptopError: Terraform failed, or its state of a cloud that is in use is gone.
        """
        with closing(AwsClients(self)) as aws:
            self._match_state(aws.client("ssm"))
        image = self._apply(clock)
        self._image.write_text(image)
        name_job_image(self._compose, image)
        with closing(AwsClients(self)) as aws:
            publish_stand_in(aws.client("ecr"), image)

    def _match_state(self, ssm: Any) -> None:
        """Mark a new cloud and forget the state of another; raise where the cloud is not new."""
        marks = [found["Value"] for found in ssm.get_parameters(Names=[MARK])["Parameters"]]
        if not marks:
            self._folder.mkdir(parents=True, exist_ok=True)
            for left in self._folder.glob("terraform.tfstate*"):
                left.unlink()
            mark = secrets.token_hex(8)
            self._mark.write_text(mark)
            ssm.put_parameter(Name=MARK, Value=mark, Type="String")
        elif not self._mark.exists() or [self._mark.read_text()] != marks:
            raise LaptopError(
                f"the local cloud's volume holds what Terraform made, and {self._folder} no "
                "state of it: put that folder back, or drop both with `make containers-down "
                "VOLUMES=delete`"
            )

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
