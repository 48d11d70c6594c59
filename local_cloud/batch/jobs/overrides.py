"""Enforces the limits of SubmitJob and of ECS's RunTask on a submission's overrides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from local_cloud.batch.jobs.job import Job

MOST_CHARACTERS = 8192  # of a container's overrides as JSON, limit of ECS's RunTask
MOST_KIB = 30  # Batch's quota for the payload of SubmitJob


def check(request: Mapping[str, Any]) -> None:
    """Raise ValueError if a SubmitJob request is too large or its command has an empty argument."""
    kib = len(as_json(request).encode()) // 1024
    if kib >= MOST_KIB:
        raise ValueError(f"Job size must be less than {MOST_KIB} KiB, got {kib} KiB")
    if "" in ((request.get("containerOverrides") or {}).get("command") or []):
        raise ValueError("containerOverrides.command can't contain an empty string")


def refusal(job: Job, compute_environment: str) -> str | None:
    """Return ECS's error for a single-node job whose overrides are too long, or None otherwise."""
    submission = job.submission
    if submission.is_multi_node:
        return None
    (container,) = submission.containers
    overrides = submission.container_overrides
    variables = variables_of(job, len(job.attempts) + 1, compute_environment)
    own = [{"name": name, "value": value} for name, value in variables.items()]
    sent = {**overrides, "environment": [*(overrides.get("environment") or []), *own]}
    if container.command != container.properties.get("command"):
        sent["command"] = container.command  # with parameters filled in
    if len(as_json({"name": "default", **sent})) <= MOST_CHARACTERS:
        return None
    return f"Container Overrides length must be at most {MOST_CHARACTERS}"


def variables_of(job: Job, attempt: int, compute_environment: str) -> dict[str, str]:
    """Return the environment variables that Batch sets for every job attempt."""
    return {
        "AWS_BATCH_JOB_ID": job.id,
        "AWS_BATCH_JOB_ATTEMPT": str(attempt),
        "AWS_BATCH_JQ_NAME": job.submission.queue.name,
        "AWS_BATCH_CE_NAME": compute_environment,
    }


def as_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
