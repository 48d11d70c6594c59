"""Check that the job image is in ECR, and what its vulnerability scan found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from batchmark.aws.batch_targets import MISSING, BatchEnvironment, Image, container_of, error_code
from batchmark.aws.result_bucket import is_aws
from batchmark.checks.records import Check

SCANNED = ("COMPLETE", "ACTIVE")  # ACTIVE: Inspector scans continuously
SERIOUS = ("CRITICAL", "HIGH")


def check_images(environment: BatchEnvironment) -> Iterator[Check]:
    """Yield two checks per image: that it exists, and that its scan found nothing serious.

    A local cloud scans none.
    """
    for uri, targets in _images(environment).items():
        shown = ", ".join(targets)
        image = Image.parse(uri)
        if image is None or image.region != environment.config.region:
            seen = f"{uri!r} is not an image in ECR in {environment.config.region}."
            yield Check(name="image", target=shown, status="not checked", seen=seen)
            continue
        ecr = environment.client("ecr")
        found = find_image(ecr, image)
        if found is None:
            yield Check(
                name="image",
                target=shown,
                status="fail",
                seen=f"{uri} is not in ECR.",
                remedy="`make image`, then `terraform apply`."
                if _is_ours(environment)
                else "Push it, or name another.",
            )
            continue
        seen = f"{uri}, pushed {found['imagePushedAt']:%Y-%m-%d}."
        yield Check(name="image", target=shown, status="ok", seen=seen)
        if scan := _scan(ecr, image, shown, is_ours=_is_ours(environment)):
            yield scan


def _is_ours(environment: BatchEnvironment) -> bool:
    """Whether the images are Batchmark's job, which `make` builds."""
    return not (environment.foreign or environment.own_jobs)


def _images(environment: BatchEnvironment) -> dict[str, list[str]]:
    """Return each image of the job definitions, and the targets that run it."""
    images: dict[str, list[str]] = {}
    for name, target in environment.targets.items():
        definition = environment.job_definitions.get(target.job_definition)
        if definition:
            images.setdefault(container_of(definition)["image"], []).append(name)
    return images


def find_image(ecr: Any, image: Image) -> dict[str, Any] | None:
    """Return ECR's details of an image; None if it, or its repository, does not exist.

    Raises:
        ClientError, BotoCoreError: ECR does not answer.
    """
    try:
        answer = ecr.describe_images(
            registryId=image.account, repositoryName=image.repository, imageIds=[image.id]
        )
    except ClientError as error:
        if error_code(error) in MISSING:
            return None
        raise
    details: list[dict[str, Any]] = answer["imageDetails"]
    return details[0] if details else None


def _scan(ecr: Any, image: Image, targets: str, *, is_ours: bool) -> Check | None:
    """Check the scan. DescribeImages does not know the newer kinds of scan."""
    try:
        answer = ecr.describe_image_scan_findings(
            registryId=image.account, repositoryName=image.repository, imageId=image.id
        )
    except ClientError as error:
        if error_code(error) != "ScanNotFoundException":
            raise
        return _not_scanned(ecr, image, targets) if is_aws(ecr) else None
    status = answer["imageScanStatus"]["status"]
    if status not in SCANNED:
        reason = answer["imageScanStatus"].get("description", "no reason given")
        seen = f"The scan is {status}: {reason}"
        return Check(name="image scan", target=targets, status="warn", seen=seen)
    counts = answer.get("imageScanFindings", {}).get("findingSeverityCounts", {})
    seen = ", ".join(f"{counts.get(level, 0)} {level.lower()}" for level in SERIOUS)
    serious = any(counts.get(level) for level in SERIOUS)
    renewal = "; `make base-images` renews the base for `make image`" if is_ours else ""
    return Check(
        name="image scan",
        target=targets,
        status="warn" if serious else "ok",
        seen=f"The scan found {seen} finding(s).",
        remedy=f"Read them in the ECR console{renewal}." if serious else "",
    )


def _not_scanned(ecr: Any, image: Image, targets: str) -> Check:
    answer = ecr.describe_repositories(registryId=image.account, repositoryNames=[image.repository])
    configuration = answer["repositories"][0].get("imageScanningConfiguration", {})
    is_on = configuration.get("scanOnPush", False)
    return Check(
        name="image scan",
        target=targets,
        status="warn",
        seen="This image was not scanned; its repository scans on push."
        if is_on
        else "This image was not scanned: its repository does not scan on push.",
        remedy="Scan it in the ECR console." if is_on else "Switch scanning on in ECR.",
    )
