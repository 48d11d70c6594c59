"""Looks up the instance that a job runs on, in ECS, EC2 and Batch.

AWS forgets an instance soon after it terminates, so look it up while the job is running.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import AwareDatetime

from batchmark.aws.batch_targets import NO_ANSWER, environment_names
from batchmark.aws.boto_clients import Clients
from batchmark.aws.existing_jobs import find_environments, find_queue, instances
from batchmark.aws.job_description import JobDescription, container_instance
from batchmark.core.config import PurchaseOption
from batchmark.core.record import Record

INSTANCE_TYPE, ZONE, AMI = "ecs.instance-type", "ecs.availability-zone", "ecs.ami-id"
CONTAINER = "default"  # how Batch names a job's container

log = logging.getLogger(__name__)


class JobHost(Record):
    """The instance of a job's last attempt; fields that AWS did not report are null."""

    container_instance: str | None = None
    instance_id: str | None = None
    instance_type: str | None = None
    availability_zone: str | None = None
    ami_id: str | None = None
    registered_at: AwareDatetime | None = None
    compute_environment: str | None = None
    purchase_option: PurchaseOption | None = None
    image_digest: str | None = None
    image_pull_started_at: AwareDatetime | None = None
    image_pull_stopped_at: AwareDatetime | None = None
    container_started_at: AwareDatetime | None = None


def host_of(clients: Clients, job: JobDescription) -> JobHost:
    """Look up a job's host. Details denied or forgotten by AWS are null; errors are logged."""
    arn, task_arn = container_instance(job), job.get("container", {}).get("taskArn")
    if arn is None:
        return JobHost()
    # Older ARNs of container instances lack the cluster's name.
    _, *names = arn.split("/")
    named = names[0] if len(names) > 1 else ""
    queue = job["jobQueue"]
    environment = _first(
        f"the compute environments of {queue}", lambda: _of_cluster(clients, queue, named)
    )
    cluster = environment.get("ecsClusterArn") or named
    registered = _first(
        f"container instance {arn}",
        lambda: clients("ecs").describe_container_instances(
            cluster=cluster, containerInstances=[arn]
        )["containerInstances"],
    )
    task: dict[str, Any] = {}
    instance: dict[str, Any] = {}
    if task_arn:
        task = _first(
            f"task {task_arn}",
            lambda: clients("ecs").describe_tasks(cluster=cluster, tasks=[task_arn])["tasks"],
        )
    if instance_id := registered.get("ec2InstanceId"):
        instance = _first(
            f"instance {instance_id}", lambda: instances(clients("ec2"), InstanceIds=[instance_id])
        )
    attributes = {each["name"]: each.get("value") for each in registered.get("attributes", ())}
    return JobHost(
        container_instance=arn,
        instance_id=instance_id,
        instance_type=attributes.get(INSTANCE_TYPE) or instance.get("InstanceType"),
        availability_zone=attributes.get(ZONE)
        or instance.get("Placement", {}).get("AvailabilityZone"),
        ami_id=attributes.get(AMI) or instance.get("ImageId"),
        registered_at=registered.get("registeredAt"),
        compute_environment=environment.get("computeEnvironmentName"),
        purchase_option=_purchase_option(instance, environment),
        image_digest=_image_digest(task),
        image_pull_started_at=task.get("pullStartedAt"),
        image_pull_stopped_at=task.get("pullStoppedAt"),
        container_started_at=task.get("startedAt"),
    )


def _of_cluster(clients: Clients, queue: str, cluster: str) -> list[dict[str, Any]]:
    """Find a queue's compute environment by cluster, or its only one if no cluster is given."""
    batch = clients("batch")
    names = environment_names(find_queue(batch, queue) or {})
    found = find_environments(batch, names) if names else []
    if cluster:
        found = [each for each in found if each.get("ecsClusterArn", "").endswith(f"/{cluster}")]
    return found if len(found) == 1 else []


def _first(what: str, find: Callable[[], Iterable[dict[str, Any]]]) -> dict[str, Any]:
    """Return the first item that AWS describes; an empty dictionary if none or if a call fails."""
    try:
        return next(iter(find()), {})
    except NO_ANSWER as error:
        log.info(
            "Some details of the job's host are unknown because AWS did not return %s: %s",
            what,
            error,
        )
        return {}


def _purchase_option(
    instance: Mapping[str, Any], environment: Mapping[str, Any]
) -> PurchaseOption | None:
    """Return the purchase option reported by EC2, or else the compute environment's."""
    if instance:
        return "spot" if instance.get("InstanceLifecycle") == "spot" else "on_demand"
    bought: dict[str | None, PurchaseOption] = {"SPOT": "spot", "EC2": "on_demand"}
    return bought.get(environment.get("computeResources", {}).get("type"))


def _image_digest(task: Mapping[str, Any]) -> str | None:
    containers = task.get("containers", ())
    ours = [each for each in containers if each.get("name") == CONTAINER] or containers
    return ours[0].get("imageDigest") if len(ours) == 1 else None
