"""The question whether the account may run as many vCPUs of the instance family."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

from batchmark.diagnosis_instances import instance_types
from batchmark.diagnosis_records import Finding
from batchmark.diagnosis_subject import Described, Hit, Subject, is_spot, name_of
from batchmark.exceptions import DiagnosisError


class Codes(NamedTuple):
    on_demand: str
    spot: str


# EC2 User Guide, "On-Demand Instance quotas" and "Spot Instance quotas", which name the families
# and link to the codes.
STANDARD = Codes("L-1216C47A", "L-34B43A08")
BY_FAMILY = {
    **dict.fromkeys(("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"), STANDARD),
    **dict.fromkeys(("g", "gr", "vt"), Codes("L-DB2E81BA", "L-3819A6DF")),
    "p": Codes("L-417A185B", "L-7212CCBC"),
    "x": Codes("L-7295265B", "L-E3A00192"),
}
# The usage metrics come every five minutes.
USAGE_PERIOD_SECONDS = 300
USAGE_WITHIN = timedelta(minutes=30)


def quota_code(instance_type: str, *, spot: bool) -> str:
    """The code of the EC2 quota that counts the type's vCPUs.

    Raises:
        DiagnosisError: a family whose code is not known here.
    """
    family = re.match(r"[a-z]+", instance_type)
    codes = BY_FAMILY.get(family.group()) if family else None
    if codes is None:
        raise DiagnosisError(f"the code of the vCPU quota of {instance_type} is not known here")
    return codes.spot if spot else codes.on_demand


def service_quota(subject: Subject) -> Iterator[Finding]:
    hits = []
    for environment in subject.candidates:
        types = instance_types(subject, environment)
        if types:
            smallest = min(types, key=lambda one: int(one["VCpuInfo"]["DefaultVCpus"]))
            hits += _hits(subject, environment, smallest)
    yield from subject.findings(hits)


def _hits(subject: Subject, environment: Described, instance_type: Described) -> Iterator[Hit]:
    vcpus, name = int(instance_type["VCpuInfo"]["DefaultVCpus"]), instance_type["InstanceType"]
    code = quota_code(name, spot=is_spot(environment))
    quota = subject.client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode=code)[
        "Quota"
    ]
    limit = float(quota["Value"])
    text = (
        f"Quota '{quota['QuotaName']}' ({code}) is {limit:g} vCPUs, and one {name} of "
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
