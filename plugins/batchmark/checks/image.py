"""Checks that the job image is in ECR, and reports what its vulnerability scan found."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from batchmark.aws.batch_targets import (
    BatchEnvironment,
    Image,
    container_of,
    error_code,
    none_if_missing,
)
from batchmark.aws.result_bucket import is_aws
from batchmark.checks.records import Check

SCANNED = ("COMPLETE", "ACTIVE")  # ACTIVE: Inspector scans continuously
SERIOUS = ("CRITICAL", "HIGH")


def check_images(environment: BatchEnvironment) -> Iterator[Check]:
    """Check that each image exists and that its scan found nothing serious.

    The second check is omitted on a local cloud, where images are not scanned.
    """
    # Batchmark's job, which `make` builds.
    is_ours = not (environment.foreign or environment.own_jobs)
    for uri, targets in _images(environment).items():
        shown = ", ".join(targets)
        check = partial(Check, name="image", target=shown)
        image = Image.parse(uri)
        if image is None or image.region != environment.config.region:
            seen = f"{uri!r} is not an ECR image in {environment.config.region}."
            yield check(status="not checked", seen=seen)
            continue
        ecr = environment.client("ecr")
        found = find_image(ecr, image)
        if found is None and not is_ours and not is_aws(ecr):
            # There it runs as a process, or from the images of a Docker engine.
            yield check(status="not checked", seen=f"{uri} is not in ECR on the local cloud.")
            continue
        if found is None:
            made = "Run `make image`, then `terraform apply`."
            remedy = made if is_ours else "Push it, or choose another image."
            yield check(status="fail", seen=f"{uri} is not in ECR.", remedy=remedy)
            continue
        yield check(status="ok", seen=f"{uri}, pushed {found['imagePushedAt']:%Y-%m-%d}.")
        if scan := _scan(ecr, image, shown, is_ours=is_ours):
            yield scan


def _images(environment: BatchEnvironment) -> dict[str, list[str]]:
    """Return the target names, grouped by the image in their job definitions."""
    images: dict[str, list[str]] = {}
    for name, target in environment.targets.items():
        definition = environment.job_definitions.get(target.job_definition)
        if definition:
            images.setdefault(container_of(definition)["image"], []).append(name)
    return images


def find_image(ecr: Any, image: Image) -> dict[str, Any] | None:
    """Return ECR's details about an image, or None if it or its repository does not exist.

    Raises:
        ClientError, BotoCoreError: ECR rejected the request or did not respond.
    """
    answer = none_if_missing(
        ecr.describe_images,
        registryId=image.account,
        repositoryName=image.repository,
        imageIds=[image.id],
    )
    return next(iter(answer["imageDetails"]), None) if answer else None


def _scan(ecr: Any, image: Image, targets: str, *, is_ours: bool) -> Check | None:
    """Check the image's scan findings; return None if a local cloud has none.

    Unlike DescribeImageScanFindings, DescribeImages does not report newer kinds of scans.
    """
    check = partial(Check, name="image scan", target=targets)
    try:
        answer = ecr.describe_image_scan_findings(
            registryId=image.account, repositoryName=image.repository, imageId=image.id
        )
    except ClientError as error:
        if error_code(error) != "ScanNotFoundException":
            raise
        if not is_aws(ecr):
            return None
        seen, remedy = _why_not_scanned(ecr, image)
        return check(status="warn", seen=seen, remedy=remedy)
    status = answer["imageScanStatus"]["status"]
    if status not in SCANNED:
        reason = answer["imageScanStatus"].get("description", "no reason given")
        return check(status="warn", seen=f"The scan is {status}: {reason}")
    counts = answer.get("imageScanFindings", {}).get("findingSeverityCounts", {})
    found = ", ".join(f"{counts.get(level, 0)} {level.lower()}" for level in SERIOUS)
    seen = f"Scan findings: {found}."
    if not any(counts.get(level) for level in SERIOUS):
        return check(status="ok", seen=seen)
    renewal = "; `make base-images` updates the base for `make image`" if is_ours else ""
    return check(status="warn", seen=seen, remedy=f"Review them in the ECR console{renewal}.")


def _why_not_scanned(ecr: Any, image: Image) -> tuple[str, str]:
    """Explain why an image was not scanned, and what to do about it."""
    answer = ecr.describe_repositories(registryId=image.account, repositoryNames=[image.repository])
    if answer["repositories"][0].get("imageScanningConfiguration", {}).get("scanOnPush", False):
        return (
            "This image was not scanned; its repository scans on push.",
            "Scan it in the ECR console.",
        )
    return (
        "This image was not scanned: its repository does not scan on push.",
        "Enable scan on push in ECR.",
    )
