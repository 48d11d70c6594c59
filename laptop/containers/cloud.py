"""A deployment's local cloud: its Terraform state and the job image that it runs."""

from __future__ import annotations

import secrets
import shutil
from contextlib import closing
from typing import Any

from laptop.aws import AwsClients, publish_stand_in
from laptop.containers.compose import Compose
from laptop.containers.job_image import tag_for_jobs, untag_for_jobs
from laptop.errors import LaptopError
from laptop.session import Clock
from laptop.stack import ROOT, TERRAFORM_DATA, apply_core_stack, clean_environment
from laptop.terraform import Terraform

VOLUME = "cloud"
MARK = "/laptop/mark"  # a parameter in SSM


class Cloud:
    """Applies Terraform to a deployment's local cloud, and cleans up once the cloud is deleted.

    The cloud keeps its data in the volume `cloud`; Terraform's state is in the deployment's folder
    `state/`. Both carry the same random mark, set before Terraform starts, so that an interrupted
    apply continues from its state, and a new volume starts without state. The file `state/image`
    holds the name by which job definitions refer to the job image.
    """

    def __init__(self, compose: Compose) -> None:
        self._compose = compose
        self._deployment = compose.deployment
        self._folder = compose.deployment.state
        self._mark = self._folder / "mark"
        self._image = self._folder / "image"

    def fill(self, clock: Clock) -> None:
        """Apply Terraform to a new or existing cloud, and tag the job image for its jobs.

        Raises:
            LaptopError: Terraform failed, or an existing cloud's state or the job image is missing.
        """
        with closing(AwsClients(self._deployment.aws)) as aws:
            self._match_state(aws.client("ssm"))
            image = apply_core_stack(self.terraform(), clock.say)
            clock.say("Terraform: applied")
            self._image.write_text(image)
            tag_for_jobs(self._compose, image)
            publish_stand_in(aws.client("ecr"), image)

    def forget(self) -> None:
        """Remove a deleted volume's Terraform state and, if no longer used, its job image tag.

        All clouds on an engine share one job image tag, so it is removed along with the last
        cloud.
        """
        if self._image.exists():
            label = f"label=com.docker.compose.volume={VOLUME}"
            if not self._compose.docker("volume", "ls", "--quiet", "--filter", label):
                untag_for_jobs(self._compose, self._image.read_text())
        shutil.rmtree(self._folder, ignore_errors=True)

    def terraform(self) -> Terraform:
        return Terraform(
            ROOT / "terraform",
            data_dir=TERRAFORM_DATA,
            state=self._folder / "terraform.tfstate",
            env=clean_environment() | self._deployment.aws_as("terraform"),
            log=self._folder / "terraform.log",
        )

    def _match_state(self, ssm: Any) -> None:
        """Mark a new cloud and delete any old state; refuse an existing cloud without its state."""
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
                f"Terraform has created resources in the local cloud's volume, but {self._folder} "
                "does not contain their state: restore that folder, or delete both with `make "
                "containers-down VOLUMES=delete`"
            )
