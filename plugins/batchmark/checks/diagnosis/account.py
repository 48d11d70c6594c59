"""The question whether the account may run as many vCPUs of the instance family."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from batchmark.diagnosis.instances import instance_types
from batchmark.diagnosis.records import Finding
from batchmark.diagnosis.subject import Described, Hit, Subject, is_spot, name_of
from batchmark.exceptions import DiagnosisError
from batchmark.vcpu_quotas import describe_quota, vcpu_quota

# The usage metrics come every five minutes.
USAGE_PERIOD_SECONDS = 300
USAGE_WITHIN = timedelta(minutes=30)


def service_quota(subject: Subject) -> Iterator[Finding]:
    hits: list[Hit] = []
    for environment in subject.candidates:
        types = instance_types(subject, environment)
        if types:
            smallest = min(types, key=lambda one: int(one["VCpuInfo"]["DefaultVCpus"]))
            hits += _hits(subject, environment, smallest)
    yield from subject.findings(hits)


def _hits(subject: Subject, environment: Described, instance_type: Described) -> Iterator[Hit]:
    vcpus, name = int(instance_type["VCpuInfo"]["DefaultVCpus"]), instance_type["InstanceType"]
    known = vcpu_quota(name, "spot" if is_spot(environment) else "on_demand")
    if known is None:
        raise DiagnosisError(f"the vCPU quota of {name} is not known here")
    quota = describe_quota(subject.client, known)
    limit = float(quota["Value"])
    text = (
        f"Quota '{known.name}' ({known.code}) is {limit:g} vCPUs, and one {name} of "
        f"{name_of(environment)} takes {vcpus}"
    )
    if vcpus > limit:
        yield Hit(environment, "service_quota", f"{text}.")
        return
    used = _in_use(subject, quota)
    if used is not None and used + vcpus > limit:
        yield Hit(
            environment, "service_quota", f"{text}, with {used:g} in use already.", certain=False
        )


def _in_use(subject: Subject, quota: Described) -> float | None:
    """The newest value of the quota's usage metric; None where there is none."""
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
    newest = max(points, key=lambda one: one["Timestamp"], default=None)
    return float(newest["Maximum"]) if newest else None
