"""Finds out from AWS why a Batch job isn't starting.

Used by the DAG `diagnose_queue`, and by tasks whose jobs have waited too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from batchmark.aws.batch_jobs import describe_jobs
from batchmark.aws.batch_targets import NO_ANSWER, container_of, environment_names, why_unread
from batchmark.aws.boto_clients import Clients
from batchmark.aws.existing_jobs import find_definition, find_environments, find_queue
from batchmark.aws.job_description import JobDescription
from batchmark.checks.diagnosis.account import image_missing, image_not_pulled, service_quota
from batchmark.checks.diagnosis.instances import (
    failed_launches,
    job_does_not_fit,
    max_vcpus_reached,
    missing_from_cluster,
)
from batchmark.checks.diagnosis.network import subnets_without_route
from batchmark.checks.diagnosis.queue import (
    blocked_events,
    environment_state,
    jobs_ahead,
    max_vcpus_too_small,
    queue_state,
    status_reason,
)
from batchmark.checks.diagnosis.records import Cause, Diagnosis, Finding
from batchmark.checks.diagnosis.subject import Subject, nodes_of, waiting_jobs
from batchmark.core.errors import DiagnosisError

Question = Callable[[Subject], Iterator[Finding]]

# Findings of equal certainty are listed in this order.
QUESTIONS: tuple[tuple[str, Question], ...] = (
    ("the queue's state", queue_state),
    ("the compute environments' state", environment_state),
    ("the job's status reason", status_reason),
    ("events about a blocked queue", blocked_events),
    ("the size of the instance types", job_does_not_fit),
    ("the environments' maxvCpus", max_vcpus_too_small),
    ("the vCPU service quota", service_quota),
    ("instance launches", failed_launches),
    ("instances in the ECS cluster", missing_from_cluster),
    ("the subnets' routes", subnets_without_route),
    ("the image in ECR", image_missing),
    ("image pulls of earlier attempts", image_not_pulled),
    ("vCPUs in use", max_vcpus_reached),
    ("jobs ahead in the queue", jobs_ahead),
)


def diagnose(
    client: Clients,
    *,
    queue: str,
    job: JobDescription | None = None,
    job_definition: str | None = None,
    events_log_group: str | None = None,
    now: datetime,
) -> Diagnosis:
    """Find out from AWS why a queue's job isn't starting; failed questions are listed in `unread`.

    Never raises. `queue` is a name or an ARN, and `client` creates clients for its region. `job`
    has the format of DescribeJobs; the default is the job that has waited longest or, if none is
    waiting, a new job from `job_definition`. EventBridge logs Batch's events to `events_log_group`.
    """
    answers = _Answers()
    subject = Subject(client, now, events_log_group, queue={}, job=job)
    with answers.asking("the queue"):
        described = find_queue(client("batch"), queue)
        if described is None:
            text = f"Batch has no queue {queue}."
            answers.findings.append(Finding.of("queue_unknown", text))
        else:
            subject.queue = described
    if subject.queue:
        _fill(subject, job_definition, answers)
        for title, question in QUESTIONS:
            with answers.asking(title):
                for finding in question(subject):  # keeps those before an error
                    answers.findings.append(finding)
    return Diagnosis(
        queue=subject.queue.get("jobQueueName", queue),
        job_id=subject.job["jobId"] if subject.job else None,
        asked_at=now,
        findings=_merged(answers.findings),
        checked=tuple(answers.checked),
        unread=tuple(answers.unread),
    )


def _fill(subject: Subject, job_definition: str | None, answers: _Answers) -> None:
    """Look up what all questions need: environments, waiting jobs, the job and its container."""
    with answers.asking("the compute environments"):
        names = environment_names(subject.queue)
        subject.environments = find_environments(subject.client("batch"), names)
    with answers.asking("the waiting jobs"):
        batch = subject.client("batch")
        subject.waiting = waiting_jobs(batch, subject.queue)
        if subject.job is None and subject.waiting:
            first = subject.waiting[0]["jobId"]
            subject.job = describe_jobs(batch, [first]).get(first)
    if subject.job is not None:
        subject.container = subject.job.get("container") or container_of(subject.job)
        subject.nodes = nodes_of(subject.job)
    elif job_definition is not None:
        with answers.asking("the job definition"):
            definition = find_definition(subject.client("batch"), job_definition) or {}
            subject.container, subject.nodes = container_of(definition), nodes_of(definition)


class _Answers:
    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.checked: list[str] = []
        self.unread: list[str] = []

    @contextmanager
    def asking(self, title: str) -> Iterator[None]:
        """Record whether a question is answered; a failure doesn't stop later questions."""
        try:
            yield
        except NO_ANSWER as error:
            self.unread.append(f"{title}: {why_unread(error)}")
        except DiagnosisError as error:
            self.unread.append(f"{title}: {error}")
        except Exception as error:  # a diagnosis must not hide the failure that it explains
            self.unread.append(f"{title}: {error!r}")
        else:
            self.checked.append(title)


def _merged(findings: list[Finding]) -> tuple[Finding, ...]:
    """Merge findings that have the same cause, and put the certain ones first."""
    by_cause: dict[Cause, Finding] = {}
    for finding in findings:
        before = by_cause.get(finding.cause)
        by_cause[finding.cause] = before.merged(finding) if before else finding
    return tuple(sorted(by_cause.values(), key=lambda finding: not finding.certain))
