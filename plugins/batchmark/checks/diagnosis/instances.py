"""Questions about instances: can they hold the job, were they launched, did they join."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from batchmark.diagnosis.records import Cause, Finding
from batchmark.diagnosis.subject import (
    Described,
    Hit,
    Needs,
    Subject,
    is_spot,
    name_of,
    resources_of,
)
from batchmark.exceptions import DiagnosisError

# Batch User Guide, "Compute resource memory management" and "Reserve system memory": the default
# AMI keeps this much from jobs, the kernel some more; leaving 5 % free is what it recommends.
AGENT_MEMORY_MIB = 32
FREE_MEMORY_SHARE = 0.05
# A GPU instance takes a few minutes from launch to its cluster.
BOOT_TIME = timedelta(minutes=10)
LAUNCHED_WITHIN = timedelta(hours=1)
MOST_INSTANCES = 100
CHOSEN_BY_BATCH = ("optimal", "default_")

# EC2's and Auto Scaling's words for a launch that failed ("Troubleshoot issues in Amazon EC2 Auto
# Scaling" and EC2's error codes), the more special ones first.
LAUNCH_FAILURES: tuple[tuple[str, Cause], ...] = (
    (r"vCPU (capacity|limit)|Max spot instance count|quota|instance limit", "service_quota"),
    (r"Spot capacity|capacity-not-available|No Spot", "no_spot_capacity"),
    (r"InsufficientInstanceCapacity|sufficient .*capacity|insufficient capacity", "no_capacity"),
)


def job_does_not_fit(subject: Subject) -> Iterator[Finding]:
    needs = subject.needs
    if needs is None:
        return
    hits = []
    for environment in subject.candidates:
        types = instance_types(subject, environment)
        shortfalls = [_shortfall(needs, one) for one in types]
        if any(one is None for one in shortfalls):
            continue
        texts = [one for one in shortfalls if one is not None]
        offered = "; ".join(text for text, _ in texts) or "EC2 knows no such instance type here"
        hits.append(
            Hit(
                environment,
                "job_does_not_fit",
                f"The job asks for {needs}, in {name_of(environment)} there is: {offered}.",
                certain=all(certain for _, certain in texts),
            )
        )
    yield from subject.findings(hits)


def instance_types(subject: Subject, environment: Described) -> list[Described]:
    """What EC2 says of the environment's instance types; a family stands for all of its sizes.

    Raises:
        DiagnosisError: Batch chooses the types itself.
    """
    named = resources_of(environment).get("instanceTypes") or []
    if any(name.startswith(CHOSEN_BY_BATCH) for name in named):
        raise DiagnosisError(
            f"Batch chooses the types of {name_of(environment)}: {', '.join(named)}"
        )
    patterns = [name if "." in name else f"{name}.*" for name in named]
    if not patterns:
        return []
    pages = (
        subject.client("ec2")
        .get_paginator("describe_instance_types")
        .paginate(Filters=[{"Name": "instance-type", "Values": patterns}])
    )
    return [one for page in pages for one in page["InstanceTypes"]]


def _shortfall(needs: Needs, instance_type: Described) -> tuple[str, bool] | None:
    """What an instance has, and whether it is surely too little; None where the job fits."""
    vcpus = int(instance_type["VCpuInfo"]["DefaultVCpus"])
    memory = int(instance_type["MemoryInfo"]["SizeInMiB"])
    gpus = sum(int(one["Count"]) for one in instance_type.get("GpuInfo", {}).get("Gpus", ()))
    has = f"{instance_type['InstanceType']} with {Needs(vcpus, memory, gpus)}"
    if needs.vcpus > vcpus or needs.gpus > gpus or needs.memory_mib > memory - AGENT_MEMORY_MIB:
        return has, True
    if needs.memory_mib > memory * (1 - FREE_MEMORY_SHARE):
        return f"{has}, some of whose memory is kept from jobs", False
    return None


def max_vcpus_reached(subject: Subject) -> Iterator[Finding]:
    hits = []
    for environment in subject.candidates:
        resources = resources_of(environment)
        limit, desired = resources.get("maxvCpus"), resources.get("desiredvCpus")
        if limit is None or desired is None or desired < limit:
            continue
        tasks = sum(
            int(one["runningTasksCount"]) for one in _container_instances(subject, environment)
        )
        if tasks:
            text = (
                f"{name_of(environment)} has {desired} of at most {limit} vCPUs, and {tasks} "
                "job(s) run there."
            )
            hits.append(Hit(environment, "max_vcpus_reached", text, certain=False))
    yield from subject.findings(hits)


def missing_from_cluster(subject: Subject) -> Iterator[Finding]:
    """Instances that run but never joined their ECS cluster, or whose agent is gone."""
    hits = []
    for environment in subject.candidates:
        registered = _container_instances(subject, environment)
        lost = [one["ec2InstanceId"] for one in registered if not one["agentConnected"]]
        old = _running_instances(subject, environment)
        joined = {one["ec2InstanceId"] for one in registered}
        if old and not joined & set(old):
            text = (
                f"{_few(old)} of {name_of(environment)} run for more than "
                f"{BOOT_TIME.seconds // 60} minutes, and none has joined its ECS cluster."
            )
            hits.append(Hit(environment, "no_container_instance", text))
        elif registered and len(lost) == len(registered):
            text = f"The ECS agent of {_few(lost)} of {name_of(environment)} is disconnected."
            hits.append(Hit(environment, "agent_disconnected", text))
    yield from subject.findings(hits)


def _container_instances(subject: Subject, environment: Described) -> list[Described]:
    cluster = environment.get("ecsClusterArn")
    if cluster is None:
        return []
    ecs = subject.client("ecs")
    pages = ecs.get_paginator("list_container_instances").paginate(
        cluster=cluster, status="ACTIVE", PaginationConfig={"MaxItems": MOST_INSTANCES}
    )
    arns = [arn for page in pages for arn in page["containerInstanceArns"]]
    if not arns:
        return []
    answer: list[Described] = ecs.describe_container_instances(
        cluster=cluster, containerInstances=arns
    )["containerInstances"]
    return answer


def _running_instances(subject: Subject, environment: Described) -> list[str]:
    """Ids of the environment's instances that had time enough to boot."""
    filters = [
        {"Name": "instance-state-name", "Values": ["running"]},
        {"Name": "tag:aws:autoscaling:groupName", "Values": [f"*{_group_part(environment)}*"]},
    ]
    pages = subject.client("ec2").get_paginator("describe_instances").paginate(Filters=filters)
    return [
        instance["InstanceId"]
        for page in pages
        for reservation in page["Reservations"]
        for instance in reservation["Instances"]
        if subject.now - instance["LaunchTime"] > BOOT_TIME
    ]


def failed_launches(subject: Subject) -> Iterator[Finding]:
    """The newest launch of each environment, where it failed within the last hour."""
    scaling = subject.client("autoscaling")
    # What Batch tags its groups with, as its managed policies show.
    pages = scaling.get_paginator("describe_auto_scaling_groups").paginate(
        Filters=[{"Name": "tag-key", "Values": ["AWSBatchServiceTag"]}]
    )
    names = [group["AutoScalingGroupName"] for page in pages for group in page["AutoScalingGroups"]]
    hits = []
    for environment in subject.candidates:
        part = _group_part(environment)
        launches = [
            activity
            for name in names
            if part in name
            for activity in _activities(scaling, name)
            if subject.now - activity["StartTime"] < LAUNCHED_WITHIN
        ]
        newest = max(launches, key=lambda one: one["StartTime"], default=None)
        if newest and newest["StatusCode"] in ("Failed", "Cancelled"):
            words = newest.get("StatusMessage") or newest["Cause"]
            text = (
                f"The newest launch in {name_of(environment)}, at "
                f"{newest['StartTime']:%Y-%m-%d %H:%M:%S %Z}, failed: {words}"
            )
            cause = launch_failure(words)
            if cause == "no_capacity" and is_spot(environment):
                cause = "no_spot_capacity"
            hits.append(Hit(environment, cause, text))
    yield from subject.findings(hits)


def launch_failure(words: str) -> Cause:
    """The cause that EC2's message of a failed launch stands for."""
    for pattern, cause in LAUNCH_FAILURES:
        if re.search(pattern, words, re.IGNORECASE):
            return cause
    return "launch_failed"


def _activities(scaling: Any, group: str) -> list[Described]:
    """The group's latest launches and ends of instances."""
    answer: list[Described] = scaling.describe_scaling_activities(
        AutoScalingGroupName=group, MaxRecords=20
    )["Activities"]
    return [one for one in answer if one["Description"].startswith(("Launching", "Placing"))]


def _group_part(environment: Described) -> str:
    """Batch names an Auto Scaling group [AWSBatch-]<compute environment>-asg-<uuid>."""
    return f"{name_of(environment)}-asg-"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"
