"""The question whether the job's image is where its job definition says."""

from __future__ import annotations

import re
from collections.abc import Iterator

from botocore.exceptions import ClientError

from batchmark.diagnosis_records import Finding, found
from batchmark.diagnosis_subject import Described, Subject
from batchmark.exceptions import DiagnosisError

# ACCOUNT.dkr.ecr.REGION.amazonaws.com[.cn]/REPOSITORY[:TAG][@DIGEST]
ECR_IMAGE = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/"
    r"(?P<repository>[^:@]+)(?::(?P<tag>[^@]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
ABSENT = ("ImageNotFoundException", "RepositoryNotFoundException")


def image_missing(subject: Subject) -> Iterator[Finding]:
    """An image of another registry can't be asked for.

    Raises:
        DiagnosisError: the registry is another region's, and `subject.client` asks this one's.
    """
    image = subject.container.get("image")
    match = ECR_IMAGE.fullmatch(image) if image else None
    if match is None:
        return
    ecr = subject.client("ecr")
    if match["region"] != ecr.meta.region_name:
        raise DiagnosisError(f"{image} is in {match['region']}, not in {ecr.meta.region_name}")
    try:
        ecr.describe_images(
            registryId=match["account"],
            repositoryName=match["repository"],
            imageIds=[_image_id(match)],
        )
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code not in ABSENT:
            raise
        text = f"ECR has no {image} ({code})."
        waits = subject.job is not None and subject.job.get("status") == "RUNNABLE"
        if waits:
            text += " That is not why the job waits for an instance, but it will fail on one."
        yield found("image_missing", text, certain=not waits)


def image_not_pulled(subject: Subject) -> Iterator[Finding]:
    """What earlier attempts of the job said."""
    attempts: list[Described] = (subject.job or {}).get("attempts", [])
    reasons = [str(one.get("container", {}).get("reason", "")) for one in attempts]
    failed = [reason for reason in reasons if reason.startswith("CannotPull")]
    if failed:
        yield found(
            "image_not_pulled",
            f"{len(failed)} attempt(s) could not pull the image, the last with: {failed[-1]}",
            certain=True,
        )


def _image_id(match: re.Match[str]) -> dict[str, str]:
    if digest := match["digest"]:
        return {"imageDigest": digest}
    return {"imageTag": match["tag"] or "latest"}
