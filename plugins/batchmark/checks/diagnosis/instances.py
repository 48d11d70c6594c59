"""Questions about instances: does the job fit, and did they launch and join the cluster?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial

from batchmark.aws.existing_jobs import (
    MOST_INSTANCES,
    InstanceType,
    container_instances,
    described_types,
    instances,
)
from batchmark.checks.diagnosis.records import Cause, Finding
from batchmark.checks.diagnosis.subject import (
    Described,
    Needs,
    Subject,
    in_each_environment,
    is_spot,
    name_of,
    resources_of,
)
from batchmark.core.errors import DiagnosisError
from batchmark.core.formatting import shortened_list

# Batch User Guide, "Compute resource memory management" and "Reserve system memory": the default
# AMI reserves this much, the kernel some more; the guide recommends to leave 5 % free.
AGENT_MEMORY_MIB = 32
FREE_MEMORY_SHARE = 0.05
# A GPU instance joins its cluster a few minutes after its launch.
BOOT_TIME = timedelta(minutes=10)
LAUNCHED_WITHIN = timedelta(hours=1)
CHOSEN_BY_BATCH = ("optimal", "default_")

# How EC2 and Auto Scaling describe a failed launch ("Troubleshoot issues in Amazon EC2 Auto
# Scaling" and EC2's error codes), from the specific to the general.
LAUNCH_FAILURES: tuple[tuple[str, Cause], ...] = (
    (r"vCPU (capacity|limit)|Max spot instance count|quota|instance limit", "service_quota"),
    (r"Spot capacity|capacity-not-available|No Spot", "no_spot_capacity"),
    (r"InsufficientInstanceCapacity|sufficient .*capacity|insufficient capacity", "no_capacity"),
)


def job_does_not_fit(subject: Subject) -> Iterator[Finding]:
    if needs := subject.needs:
        yield from subject.findings(partial(_too_small, subject, needs))


def _too_small(subject: Subject, needs: Needs, environment: Described) -> Finding | None:
    shortfalls = []
    for instance_type in instance_types(subject, environment):
        shortfall = _shortfall(needs, instance_type)
        if shortfall is None:
            return None
        shortfalls.append(shortfall)
    offered = "; ".join(text for text, _ in shortfalls) or "EC2 doesn't offer this type here"
    return Finding.of(
        "job_does_not_fit",
        f"The job requests {needs}; {name_of(environment)} offers: {offered}.",
        certain=all(certain for _, certain in shortfalls),
    )


def instance_types(subject: Subject, environment: Described) -> list[Described]:
    """Describe the environment's instance types, expanding a family to all its sizes.

    Raises:
        DiagnosisError: Batch chooses the instance types itself.
    """
    named = resources_of(environment).get("instanceTypes") or []
    if any(name.startswith(CHOSEN_BY_BATCH) for name in named):
        raise DiagnosisError(
            f"Batch itself chooses the instance types of {name_of(environment)} "
            f"({', '.join(named)})"
        )
    patterns = [name if "." in name else f"{name}.*" for name in named]
    return list(described_types(subject.client("ec2"), patterns)) if patterns else []


def _shortfall(needs: Needs, instance_type: Described) -> tuple[str, bool] | None:
    """Describe an instance type and say whether it is surely too small; None if the job fits."""
    name, vcpus, memory, gpus = InstanceType.of(instance_type)
    has = f"{name} with {Needs(vcpus, memory, gpus)}"
    if needs.vcpus > vcpus or needs.gpus > gpus or needs.memory_mib > memory - AGENT_MEMORY_MIB:
        return has, True
    if needs.memory_mib > memory * (1 - FREE_MEMORY_SHARE):
        return f"{has}, but jobs can't use all of its memory", False
    return None


@in_each_environment
def max_vcpus_reached(subject: Subject, environment: Described) -> Finding | None:
    resources = resources_of(environment)
    limit, desired = resources.get("maxvCpus"), resources.get("desiredvCpus")
    if limit is None or desired is None or desired < limit:
        return None
    instances = _container_instances(subject, environment)
    tasks = sum(int(instance["runningTasksCount"]) for instance in instances)
    text = (
        f"{name_of(environment)} is at {desired} of at most {limit} vCPUs, and "
        f"{tasks} job(s) are running there."
    )
    return Finding.of("max_vcpus_reached", text, certain=False) if tasks else None


@in_each_environment
def missing_from_cluster(subject: Subject, environment: Described) -> Finding | None:
    """Check if no instance has joined the ECS cluster, or if all ECS agents are disconnected."""
    registered = {
        instance["ec2InstanceId"]: instance["agentConnected"]
        for instance in _container_instances(subject, environment)
    }
    booted = _booted_instances(subject, _groups_of(subject, environment))
    if booted and not registered.keys() & set(booted):
        text = (
            f"{shortened_list(booted)} in {name_of(environment)} have been running "
            f"for more than {BOOT_TIME.seconds // 60} minutes, but none has joined "
            "its ECS cluster."
        )
        return Finding.of("no_container_instance", text)
    if registered and not any(registered.values()):
        ids = shortened_list(list(registered))
        text = f"The ECS agent on {ids} in {name_of(environment)} is disconnected."
        return Finding.of("agent_disconnected", text)
    return None


def _container_instances(subject: Subject, environment: Described) -> list[Described]:
    cluster = environment.get("ecsClusterArn")
    return container_instances(subject.client("ecs"), cluster, status="ACTIVE") if cluster else []


def _booted_instances(subject: Subject, groups: Sequence[Described]) -> list[str]:
    """Return the IDs of the instances in these groups that have had time to boot."""
    ids = [instance["InstanceId"] for group in groups for instance in group.get("Instances", ())]
    if not ids:
        return []
    filters = [
        {"Name": "instance-state-name", "Values": ["running"]},
        {"Name": "instance-id", "Values": ids[:MOST_INSTANCES]},
    ]
    return [
        instance["InstanceId"]
        for instance in instances(subject.client("ec2"), Filters=filters)
        if subject.now - instance["LaunchTime"] > BOOT_TIME
    ]


@in_each_environment
def failed_launches(subject: Subject, environment: Described) -> Finding | None:
    """Check whether the environment's latest launch within the last hour failed."""
    launches = [
        launch
        for group in _groups_of(subject, environment)
        for launch in _launches(subject, group["AutoScalingGroupName"])
    ]
    newest = max(launches, key=lambda launch: launch["StartTime"], default=None)
    if newest is None or newest["StatusCode"] not in ("Failed", "Cancelled"):
        return None
    message = newest.get("StatusMessage") or newest["Cause"]
    cause = launch_failure(message)
    if cause == "no_capacity" and is_spot(environment):
        cause = "no_spot_capacity"
    text = (
        f"The latest launch in {name_of(environment)}, at "
        f"{newest['StartTime']:%Y-%m-%d %H:%M:%S %Z}, failed: {message}"
    )
    return Finding.of(cause, text)


def launch_failure(message: str) -> Cause:
    for pattern, cause in LAUNCH_FAILURES:
        if re.search(pattern, message, re.IGNORECASE):
            return cause
    return "launch_failed"


def _launches(subject: Subject, group: str) -> list[Described]:
    """Return an Auto Scaling group's launches within the last hour."""
    activities = subject.client("autoscaling").describe_scaling_activities(
        AutoScalingGroupName=group, MaxRecords=20
    )["Activities"]
    return [
        activity
        for activity in activities
        if activity["Description"].startswith(("Launching", "Placing"))
        and subject.now - activity["StartTime"] < LAUNCHED_WITHIN
    ]


def _groups_of(subject: Subject, environment: Described) -> list[Described]:
    return [group for group in subject.groups_of_batch if _made_for(environment, group)]


def _made_for(environment: Described, group: Described) -> bool:
    """Whether the group's tags or name contain the environment's name; AWS documents neither.

    Group names seen so far have the form [AWSBatch-]<compute environment>-asg-<uuid>.
    """
    name = name_of(environment)
    tagged = {tag.get("Value") for tag in group.get("Tags", ())}
    by_tag = not tagged.isdisjoint({name, environment["computeEnvironmentArn"]})
    return by_tag or f"{name}-asg-" in group["AutoScalingGroupName"]
