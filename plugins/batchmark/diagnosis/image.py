"""The question whether the job's image is where its job definition says."""

from __future__ import annotations

from collections.abc import Iterator

from batchmark.batch_environment import Image
from batchmark.diagnosis.records import Finding, found
from batchmark.diagnosis.subject import Described, Subject
from batchmark.exceptions import DiagnosisError
from batchmark.image_check import find_image


def image_missing(subject: Subject) -> Iterator[Finding]:
    """An image of another registry can't be asked for.

    Raises:
        DiagnosisError: the registry is another region's, and `subject.client` asks this one's.
    """
    uri = str(subject.container.get("image"))
    image = Image.parse(uri)
    if image is None:
        return
    ecr = subject.client("ecr")
    if image.region != ecr.meta.region_name:
        raise DiagnosisError(f"{uri} is in {image.region}, not in {ecr.meta.region_name}")
    if find_image(ecr, image) is None:
        text = f"ECR has no {uri}."
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
