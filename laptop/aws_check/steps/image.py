"""Puts the job image, either a new build or the user's own, into the installation's repository."""

from __future__ import annotations

import base64
import json
import re
from contextlib import suppress
from typing import NamedTuple

from batchmark.aws.batch_targets import none_if_missing
from laptop.aws import publish_stand_in
from laptop.aws_check.check import Check
from laptop.aws_check.engine import PUBLISH, docker, pull
from laptop.aws_check.estimate import OWN_JOB_SECONDS
from laptop.aws_check.step import NotCheckedError, Seen, StepError
from laptop.aws_check.steps.stack import apply
from laptop.errors import LaptopError
from laptop.stack import ROOT, path_of_jobs

# Lines with which publish.sh reports images that it pushed or that already exist.
GPU_DIGEST = re.compile(r'\bimage_tag *= *"?(sha256:[0-9a-f]{64})')
CPU_DIGEST = re.compile(r'\bcpu_image_tag *= *"?(sha256:[0-9a-f]{64})')
TAG = "check"
FILE = "images.json"
OWN_JOB = "sum"


class Images(NamedTuple):
    """Tags or digests of the images for GPU targets and, if they differ, for CPU targets."""

    gpu: str
    cpu: str | None


def image(check: Check) -> Seen:
    """Push the job image or, to a local cloud, just a stand-in."""
    repository = str(check.terraform.outputs()["ecr_repository_url"])
    if not check.account.on_aws:
        publish_stand_in(check.clients("ecr"), f"{repository}:{TAG}")
        _keep(check, Images(TAG, None))
        raise NotCheckedError(
            "a local cloud runs jobs as processes, so just a stand-in was pushed", passes=True
        )
    images = _copied(check, repository) if check.image else _published(check, repository)
    _keep(check, images)
    return Seen(f"{images.gpu}, for CPU targets {images.cpu or 'the same'}")


def apply_images(check: Check) -> Seen:
    """Apply Terraform with the pushed images and an `own_jobs` entry that uses them."""
    images = Images(*json.loads((check.folder / FILE).read_text()))
    repository = str(check.terraform.outputs()["ecr_repository_url"])
    check.pin(
        image_tag=images.gpu,
        cpu_image_tag=images.cpu,
        own_jobs={
            OWN_JOB: {
                "images": {
                    "cuda": _uri(repository, images.gpu),
                    "cpu": _uri(repository, images.cpu or images.gpu),
                },
                "command": ["python", "-c", "print(sum(range(10**7)))"],
                "check": "python -c 'assert sum(range(10)) == 45'",
                "timeout_seconds": OWN_JOB_SECONDS,
                "attempts": 1,
            }
        },
    )
    return apply(check)


def _keep(check: Check, images: Images) -> None:
    (check.folder / FILE).write_text(json.dumps(images))


def _uri(repository: str, tag: str) -> str:
    return f"{repository}{'@' if tag.startswith('sha256:') else ':'}{tag}"


def _published(check: Check, repository: str) -> Images:
    """Build the image's GPU and CPU variants from the current commit, and push them."""
    log = check.processes.log_of("image")
    check.say(f"building the job image (10 to 30 minutes); log: {log}")
    argv = [str(PUBLISH), "--repository", repository]
    try:
        check.processes.run("image", argv, cwd=ROOT, env={"PATH": path_of_jobs()})
    except LaptopError as error:
        # Also returns if an earlier start of the check has pushed them.
        if "exists already" not in str(error):
            raise
    return digests(log.read_text(errors="replace"))


def digests(said: str) -> Images:
    """Return the last digests that publish.sh reported.

    Raises:
        StepError: it reported none.
    """
    gpu, cpu = (pattern.findall(said) for pattern in (GPU_DIGEST, CPU_DIGEST))
    if not (gpu and cpu):
        raise StepError("publish.sh reported no image digests")
    return Images(gpu[-1], cpu[-1])


def _copied(check: Check, repository: str) -> Images:
    """Pull the user's image and push it for all targets.

    An image already pushed by an earlier start of the check is kept, because tags are immutable.
    """
    if (pushed := _pushed(check, repository)) is None:
        pull(str(check.image))
        _push(check, str(check.image), f"{repository}:{TAG}")
        pushed = _pushed(check, repository)
    if pushed is None:
        raise StepError(f"{repository}:{TAG} was pushed, but ECR does not list it")
    return Images(pushed, None)


def _pushed(check: Check, repository: str) -> str | None:
    """Return the digest of the ECR image with our tag, or None if there is none."""
    found = none_if_missing(
        check.clients("ecr").describe_images,
        repositoryName=repository.partition("/")[2],
        imageIds=[{"imageTag": TAG}],
    )
    return str(found["imageDetails"][0]["imageDigest"]) if found else None


def _push(check: Check, image: str, target: str) -> None:
    answer = check.clients("ecr").get_authorization_token()["authorizationData"][0]
    user, _, password = base64.b64decode(answer["authorizationToken"]).decode().partition(":")
    registry = target.partition("/")[0]
    docker("login", "--username", user, "--password-stdin", registry, given=password)
    try:
        docker("tag", image, target)
        docker("push", target)
    finally:
        with suppress(LaptopError):  # if this fails, the login expires after 12 hours
            docker("logout", registry)
