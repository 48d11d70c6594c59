"""Questions about the account: whether ECR has the image, and whether the vCPU quota suffices."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from operator import itemgetter

from batchmark.aws.batch_targets import Image
from batchmark.aws.instance_families import describe_quota, vcpu_quota
from batchmark.checks.diagnosis.instances import instance_types
from batchmark.checks.diagnosis.records import Finding
from batchmark.checks.diagnosis.subject import (
    Described,
    Subject,
    in_each_environment,
    is_spot,
    name_of,
)
from batchmark.checks.image import find_image
from batchmark.core.errors import DiagnosisError

# CloudWatch has usage metrics every five minutes.
USAGE_PERIOD_SECONDS = 300
USAGE_WITHIN = timedelta(minutes=30)


def image_missing(subject: Subject) -> Iterator[Finding]:
    """Check that the job's image exists, if its registry is ECR.

    Raises:
        DiagnosisError: the image is in a different region from `subject.client`.
    """
    uri = str(subject.container.get("image"))
    image = Image.parse(uri)
    if image is None:
        return
    ecr = subject.client("ecr")
    if image.region != ecr.meta.region_name:
        raise DiagnosisError(f"{uri} is in {image.region}, not in {ecr.meta.region_name}")
    if find_image(ecr, image) is None:
        text = f"Image {uri} is not in ECR."
        waits = subject.job is not None and subject.job.get("status") == "RUNNABLE"
        if waits:
            text += " The job can still get an instance, but it will fail there."
        yield Finding.of("image_missing", text, certain=not waits)


def image_not_pulled(subject: Subject) -> Iterator[Finding]:
    """Check whether earlier attempts at the job failed to pull the image."""
    attempts: list[Described] = (subject.job or {}).get("attempts", [])
    reasons = [str(attempt.get("container", {}).get("reason", "")) for attempt in attempts]
    failed = [reason for reason in reasons if reason.startswith("CannotPull")]
    if failed:
        text = (
            f"{len(failed)} attempt(s) could not pull the image; the last error was: {failed[-1]}"
        )
        yield Finding.of("image_not_pulled", text)


@in_each_environment
def service_quota(subject: Subject, environment: Described) -> Finding | None:
    types = instance_types(subject, environment)
    if not types:
        return None
    vcpus, name = min(
        ((int(each["VCpuInfo"]["DefaultVCpus"]), each["InstanceType"]) for each in types),
        key=itemgetter(0),
    )
    known = vcpu_quota(name, "spot" if is_spot(environment) else "on_demand")
    if known is None:
        raise DiagnosisError(f"the vCPU quota for {name} is unknown")
    quota = describe_quota(subject.client, known)
    limit = float(quota["Value"])
    vcpus *= subject.nodes
    of = f"{name} in {name_of(environment)}"
    instances = f"one {of} takes" if subject.nodes == 1 else f"{subject.nodes} {of} take"
    text = f"Quota '{known.name}' ({known.code}) is {limit:g} vCPUs, but {instances} {vcpus}"
    if vcpus > limit:
        return Finding.of("service_quota", f"{text}.")
    used = _vcpus_in_use(subject, quota)
    if used is not None and used + vcpus > limit:
        return Finding.of("service_quota", f"{text}; {used:g} are already in use.", certain=False)
    return None


def _vcpus_in_use(subject: Subject, quota: Described) -> float | None:
    """Return the newest value of the quota's usage metric, or None if there is none."""
    metric = quota.get("UsageMetric")
    if not metric:
        return None
    points = subject.client("cloudwatch").get_metric_statistics(
        Namespace=metric["MetricNamespace"],
        MetricName=metric["MetricName"],
        Dimensions=[
            {"Name": name, "Value": value}
            for name, value in sorted(metric["MetricDimensions"].items())
        ],
        StartTime=subject.now - USAGE_WITHIN,
        EndTime=subject.now,
        Period=USAGE_PERIOD_SECONDS,
        Statistics=["Maximum"],
    )["Datapoints"]
    newest = max(points, key=lambda point: point["Timestamp"], default=None)
    return float(newest["Maximum"]) if newest else None
