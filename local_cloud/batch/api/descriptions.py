"""Describes jobs as DescribeJobs and ListJobs return them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from local_cloud.batch.jobs.container import Container
from local_cloud.batch.jobs.job import STATUSES, AttemptRecord, Job, NodeRecord

CONTAINER_FIELDS = (
    "image",
    "jobRoleArn",
    "executionRoleArn",
    "volumes",
    "mountPoints",
    "ulimits",
    "secrets",
    "privileged",
    "readonlyRootFilesystem",
    "user",
    "linuxParameters",
    "logConfiguration",
)


def without_none(fields: dict[str, Any]) -> dict[str, Any]:
    """Drop fields that are None, as AWS does."""
    return {key: value for key, value in fields.items() if value is not None}


def summary(job: Job) -> dict[str, Any]:
    """Return the job's JobSummary, as in ListJobs."""
    fields: dict[str, Any] = {
        "jobArn": job.arn,
        "jobId": job.id,
        "jobName": job.submission.name,
        "jobDefinition": job.submission.definition.arn,
        "createdAt": job.created_at,
        "status": job.status,
        "statusReason": job.status_reason,
        "startedAt": job.started_at,
        "stoppedAt": job.stopped_at,
        "isCancelled": job.is_cancelled or None,
        "isTerminated": job.is_terminated or None,
    }
    if job.submission.array_size is not None:
        fields["arrayProperties"] = array_properties(job)
    if job.submission.main_node is not None:
        fields["nodeProperties"] = {"numNodes": len(job.submission.containers)}
    elif job.finished and job.attempts:
        fields["container"] = exit_fields(job.attempts[-1].nodes[0])
    return without_none(fields)


def detail(job: Job, tags: dict[str, str]) -> dict[str, Any]:
    """Return the job's JobDetail, as in DescribeJobs."""
    submission = job.submission
    main_node = submission.main_node
    fields = {
        **summary(job),
        "jobQueue": submission.queue.arn,
        "dependsOn": submission.depends_on,
        "parameters": submission.parameters,
        "retryStrategy": {
            "attempts": int(submission.retry_strategy.get("attempts") or 1),
            "evaluateOnExit": submission.retry_strategy.get("evaluateOnExit") or [],
        },
        "timeout": submission.timeout or None,
        "tags": tags,
        "propagateTags": bool(submission.definition.propagate_tags),
        "platformCapabilities": submission.definition.platform_capabilities or ["EC2"],
        "attempts": [attempt(record, main_node or 0) for record in job.attempts],
        "isCancelled": job.is_cancelled,
        "isTerminated": job.is_terminated,
    }
    if main_node is None:
        fields["container"] = container(job, 0)
    else:
        fields["nodeProperties"] = submission.node_properties
    return without_none(fields)


def node_detail(job: Job, node: int, tags: dict[str, str]) -> dict[str, Any]:
    fields = detail(job, tags)
    del fields["nodeProperties"]
    return {
        **fields,
        "jobId": f"{job.id}#{node}",
        "jobArn": f"{job.arn}#{node}",
        "attempts": [attempt(record, node) for record in job.attempts],
        "container": container(job, node),
        "nodeDetails": {"nodeIndex": node, "isMainNode": node == job.submission.main_node},
    }


def array_properties(job: Job) -> dict[str, Any]:
    """Return an array parent's size and its number of children per state, or a child's index."""
    if job.index is not None:
        return {"index": job.index}
    counts = Counter(child.status for child in job.children)
    return {
        "size": job.submission.array_size,
        "statusSummary": {status: counts[status] for status in STATUSES},
    }


def attempt(record: AttemptRecord, node: int) -> dict[str, Any]:
    return without_none(
        {
            "container": {
                **placement(record.nodes[node]),
                **exit_fields(record.nodes[node]),
                "networkInterfaces": network_interfaces(record.nodes[node]),
            },
            "startedAt": record.started_at,
            "stoppedAt": record.stopped_at,
            "statusReason": record.status_reason,
        }
    )


def network_interfaces(record: NodeRecord) -> list[dict[str, str]]:
    """Return a node's own interface, or none for a container that uses its host's interface."""
    return [{"privateIpv4Address": record.address}] if record.address else []


def placement(record: NodeRecord) -> dict[str, Any]:
    """Return where a container runs and where its output goes."""
    return {
        "containerInstanceArn": record.container_instance_arn,
        "taskArn": record.task_arn,
        "logStreamName": record.log_stream_name,
    }


def exit_fields(record: NodeRecord) -> dict[str, Any]:
    """Return how a container ended, or an empty dict while it is running."""
    return without_none({"exitCode": record.exit_code, "reason": record.reason})


def resources(merged: Container) -> dict[str, Any]:
    """Return a container's resource requirements, using the same fields as the request."""
    needed = merged.requirements
    values = {"VCPU": f"{needed.vcpus:g}", "MEMORY": str(needed.memory_mib)}
    if needed.gpus:
        values["GPU"] = str(needed.gpus)
    old = {"VCPU": ("vcpus", int(needed.vcpus)), "MEMORY": ("memory", needed.memory_mib)}
    return {
        "resourceRequirements": [
            {"type": kind, "value": value}
            for kind, value in values.items()
            if kind not in merged.old_fields
        ],
        **dict(old[kind] for kind in sorted(merged.old_fields)),
    }


def container(job: Job, node: int) -> dict[str, Any]:
    """Return a ContainerDetail: what was requested and how the last attempt turned out."""
    merged = job.submission.containers[node]
    fields: dict[str, Any] = {
        key: merged.properties[key] for key in CONTAINER_FIELDS if key in merged.properties
    }
    fields.update(
        command=merged.command,
        environment=[{"name": name, "value": value} for name, value in merged.environment.items()],
        **resources(merged),
        networkInterfaces=[],
    )
    if job.attempts:
        record = job.attempts[-1].nodes[node]
        fields.update(placement(record), networkInterfaces=network_interfaces(record))
        if job.finished:
            fields.update(exit_fields(record))
    return fields
