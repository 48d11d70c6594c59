"""What outlives the local cloud's container, whose memory ends with it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from batchmark.terraform import Terraform
from laptop import objects
from laptop.aws import AwsClients
from laptop.compose import LOCAL_CLOUD, Compose, name_job_image
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


class Saved(BaseModel):
    """The objects that were in a bucket."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bucket: str
    objects: tuple[StoredObject, ...]


class CloudState:
    """Terraform's state and the result bucket's objects, in a deployment's folder `state/`.

    `state/filled` names the container that has it all. It is written last: a cloud that was only
    half filled is filled anew, and never saved over what an earlier one held.
    """

    def __init__(self, compose: Compose) -> None:
        self._compose = compose
        self._folder = compose.deployment.state
        self._filled = self._folder / "filled"
        self._saved = self._folder / "saved"
        self.endpoint = compose.deployment.endpoint
        self.aws: Mapping[str, str] = aws_environment(self.endpoint, "laptop")

    def fill(self, clock: Clock) -> None:
        """Apply Terraform; in a cloud that is new, put back what the last one held.

        Raises:
            LaptopError: Terraform failed, or what was saved is damaged.
        """
        lives = self._identity()
        new = not (self._filled.exists() and self._filled.read_text() == lives)
        self._folder.mkdir(parents=True, exist_ok=True)
        if new:
            for left in self._folder.glob("terraform.tfstate*"):
                left.unlink()
        image = self._apply(clock)
        name_job_image(self._compose, image)
        if not new:
            return
        with closing(AwsClients(self)) as aws:
            publish_stand_in(aws.client("ecr"), image)
            if self._saved.exists():
                saved = read_saved(self._saved)
                objects.check(saved.objects, self._saved)
                s3 = aws.client("s3")
                objects.put_back(s3, aws.config().bucket, saved.objects, self._saved)
                clock.say(f"local cloud: {len(saved.objects)} objects are back in its bucket")
        self._filled.write_text(lives)

    def save(self, clock: Clock) -> None:
        """Keep the bucket's objects for the next local cloud; nothing where this one has none."""
        if not self._filled.exists() or self._filled.read_text() != self._identity():
            return
        unfinished = self._folder / "saving"
        shutil.rmtree(unfinished, ignore_errors=True)
        count = self.copy_objects(unfinished)
        older = self._folder / "older"
        if self._saved.exists():
            shutil.rmtree(older, ignore_errors=True)
            self._saved.rename(older)
        unfinished.rename(self._saved)
        shutil.rmtree(older, ignore_errors=True)
        clock.say(f"local cloud: saved the {count} objects of its bucket")

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

    def _identity(self) -> str:
        """Names this start of the container: a restart begins with an empty memory."""
        record = self._compose.services().get(LOCAL_CLOUD)
        if record is None or record["State"] != "running":
            return ""
        started = self._compose.docker("inspect", "--format", "{{.State.StartedAt}}", record["ID"])
        return f"{record['ID']} {started.strip()}"


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
