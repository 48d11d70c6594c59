"""Asks Batch about the queue, its compute environments, the job and the jobs ahead of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

from batchmark.aws.boto_clients import all_pages
from batchmark.aws.job_parts import child_ids
from batchmark.checks.diagnosis.records import Cause, Finding
from batchmark.checks.diagnosis.subject import (
    Described,
    Needs,
    Subject,
    is_spot,
    is_usable,
    name_of,
    resources_of,
)
from batchmark.core.errors import DiagnosisError

BLOCKED = "Batch Job Queue Blocked"
BLOCKED_WITHIN = timedelta(hours=1)

# Batch User Guide, "Jobs stuck in a RUNNABLE status": how a statusReason begins. A job that was
# cancelled by jobStateTimeLimitActions repeats it.
REASONS: dict[str, Cause] = {
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY": "no_capacity",
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE": "max_vcpus_too_small",
    "MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED": "instance_unsupported",
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT": "job_does_not_fit",
    "MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS": "service_role",
    "ACTION_REQUIRED": "environment_invalid",
    "UNDETERMINED": "undetermined",
}


def queue_state(subject: Subject) -> Iterator[Finding]:
    queue = subject.queue
    name, state, status = queue["jobQueueName"], queue["state"], queue.get("status", "VALID")
    if state == "DISABLED":
        text = f"Queue {name} is DISABLED: Batch accepts no new jobs for it."
        if subject.job:
            text += " According to AWS's documentation, it still finishes the jobs it has."
        yield Finding.of("queue_disabled", text, certain=subject.job is None)
    if status not in ("VALID", "UPDATING"):
        reason = queue.get("statusReason", "no reason given")
        yield Finding.of("queue_invalid", f"Queue {name} is {status}: {reason}")


def environment_state(subject: Subject) -> Iterator[Finding]:
    nothing_usable = not any(map(is_usable, subject.known_environments))
    for environment in subject.environments:
        if is_usable(environment):
            continue
        name, state = name_of(environment), environment.get("state")
        status = environment.get("status")
        reason = environment.get("statusReason", "no reason given")
        cause: Cause
        if status == "INVALID":
            cause, text = "environment_invalid", f"is INVALID: {reason}"
        elif state == "DISABLED":
            cause, text = "environment_disabled", "is DISABLED: Batch places no job in it"
        else:
            cause, text = "environment_not_ready", f"is {status}: {reason}"
        yield Finding.of(
            cause, f"Compute environment {name} {_sentence(text)}", certain=nothing_usable
        )


def status_reason(subject: Subject) -> Iterator[Finding]:
    if subject.job and (reason := subject.job.get("statusReason")):
        text = f"Batch's status reason for the job: {_sentence(reason)}"
        yield from _of_reason(subject, reason, text, certain=True)


def blocked_events(subject: Subject) -> Iterator[Finding]:
    """Check whether the job (any job if none is waiting) blocked the queue within the last hour.

    The finding isn't certain, because the logged events can be outdated.
    """
    if subject.events_log_group is None:
        return
    entries = all_pages(
        subject.client("logs"),
        "filter_log_events",
        "events",
        logGroupName=subject.events_log_group,
        filterPattern=f'"{BLOCKED}"',
        startTime=int((subject.now - BLOCKED_WITHIN).timestamp() * 1000),
    )
    own = {subject.job["jobId"], *child_ids(subject.job)} if subject.job else set()
    events = [json.loads(entry["message"]) for entry in entries]
    blocked = [
        event
        for event in events
        if event.get("detail-type") == BLOCKED
        and event["detail"]["jobQueue"] == subject.queue["jobQueueArn"]
        and (subject.job is None or event["detail"]["jobId"] in own)
    ]
    if blocked:
        last = max(blocked, key=lambda event: str(event["time"]))
        reason = last["detail"].get("statusReason", "")
        text = f"At {last['time']}, job {last['detail']['jobId']} blocked the queue: {reason}"
        yield from _of_reason(subject, reason, _sentence(text), certain=False)


def jobs_ahead(subject: Subject) -> Iterator[Finding]:
    """Find older waiting jobs, which go first in a queue without a scheduling policy."""
    job = subject.job
    if job is None or job.get("status") != "RUNNABLE":
        return
    if subject.waiting is None:
        raise DiagnosisError("the waiting jobs are unknown")
    ahead = [other for other in subject.waiting if other["createdAt"] < job["createdAt"]]
    if not ahead:
        return
    first = ahead[0]
    reason = first.get("statusReason")
    text = f"{len(ahead)} RUNNABLE job(s) are ahead in the queue; the first is {first['jobId']}"
    text += f", with status reason: {reason}" if reason else ""
    yield Finding.of("behind_other_jobs", _sentence(text), certain=bool(reason))


def max_vcpus_too_small(subject: Subject) -> Iterator[Finding]:
    if needs := subject.needs:
        yield from subject.findings(partial(_limit_too_small, needs))


def _limit_too_small(needs: Needs, environment: Described) -> Finding | None:
    limit = resources_of(environment).get("maxvCpus")
    if limit is None or needs.vcpus <= int(limit):
        return None
    return Finding.of(
        "max_vcpus_too_small",
        f"The job requests {needs.vcpus:g} vCPUs, but {name_of(environment)} is limited to "
        f"{limit}.",
    )


def _of_reason(subject: Subject, reason: str, evidence: str, *, certain: bool) -> Iterator[Finding]:
    cause = next((cause for words, cause in REASONS.items() if words in reason), None)
    environments = subject.environments
    if cause == "no_capacity" and environments and all(map(is_spot, environments)):
        cause = "no_spot_capacity"
    if cause:
        yield Finding.of(cause, evidence, certain=certain and cause != "undetermined")


def _sentence(text: str) -> str:
    return text.rstrip(". ") + "."
