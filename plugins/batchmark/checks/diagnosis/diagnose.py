"""Why a Batch job does not start: every question that AWS's APIs can answer, with its evidence.

`diagnose` runs alone (the DAG `diagnose_queue`) and where a job has waited longer than it may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from batchmark.batch_environment import NO_ANSWER, Clients, why_unread
from batchmark.diagnosis.image import image_missing, image_not_pulled
from batchmark.diagnosis.instances import (
    failed_launches,
    job_does_not_fit,
    max_vcpus_reached,
    missing_from_cluster,
)
from batchmark.diagnosis.network import subnets_without_route
from batchmark.diagnosis.queue import (
    blocked_events,
    environment_state,
    jobs_ahead,
    max_vcpus_too_small,
    queue_state,
    status_reason,
)
from batchmark.diagnosis.quota import service_quota
from batchmark.diagnosis.records import Cause, Diagnosis, Finding, found
from batchmark.diagnosis.subject import (
    Subject,
    describe_definition,
    describe_environments,
    describe_queue,
    waiting_jobs,
)
from batchmark.exceptions import DiagnosisError
from batchmark.job_description import JobDescription
from batchmark.jobs import describe_jobs

__all__ = ["Cause", "Diagnosis", "Finding", "diagnose"]

Question = Callable[[Subject], Iterator[Finding]]

# What stands first is told first, among findings that are equally certain.
QUESTIONS: tuple[tuple[str, Question], ...] = (
    ("the queue's state", queue_state),
    ("the compute environments' state", environment_state),
    ("Batch's reason at the job", status_reason),
    ("events of a blocked queue", blocked_events),
    ("the instance types' size", job_does_not_fit),
    ("the environments' maxvCpus", max_vcpus_too_small),
    ("the service quota of vCPUs", service_quota),
    ("launches of instances", failed_launches),
    ("instances in the ECS cluster", missing_from_cluster),
    ("the subnets' routes", subnets_without_route),
    ("the image in ECR", image_missing),
    ("earlier attempts' pull of the image", image_not_pulled),
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
    """Ask AWS why a job of a queue does not start. Never raises: what fails stands in `unread`.

    Args:
        client: gives a boto3 client of the queue's region by its service's name.
        queue: name or ARN.
        job: as DescribeJobs gave it; without one, the job that has waited longest is looked at.
        job_definition: with its revision; its needs and image are looked at where no job waits.
        events_log_group: where EventBridge logs Batch's events.
        now: with its time zone.
    """
    answers = _Answers()
    subject = Subject(client, now, events_log_group, queue={}, job=job)
    with answers.asking("the queue"):
        described = describe_queue(client("batch"), queue)
        if described is None:
            text = f"Batch knows no queue {queue}."
            answers.findings.append(found("queue_unknown", text, certain=True))
        else:
            subject.queue = described
    if subject.queue:
        _fill(subject, job_definition, answers)
        for title, question in QUESTIONS:
            with answers.asking(title):
                for finding in question(subject):
                    answers.findings.append(finding)
    return Diagnosis(
        queue=subject.queue.get("jobQueueName", queue),
        job_id=subject.job["jobId"] if subject.job else None,
        asked_at=now,
        findings=_in_order(answers.findings),
        checked=tuple(answers.checked),
        unread=tuple(answers.unread),
    )


def _fill(subject: Subject, job_definition: str | None, answers: _Answers) -> None:
    """Find out what the questions share: environments, waiting jobs, the job, its container."""
    with answers.asking("the compute environments"):
        subject.environments = describe_environments(subject.client("batch"), subject.queue)
    with answers.asking("the jobs that wait"):
        batch = subject.client("batch")
        subject.waiting = waiting_jobs(batch, subject.queue)
        if subject.job is None and subject.waiting:
            first = subject.waiting[0]["jobId"]
            subject.job = describe_jobs(batch, [first]).get(first)
    if subject.job is not None:
        subject.container = subject.job.get("container") or {}
    elif job_definition is not None:
        with answers.asking("the job definition"):
            subject.container = describe_definition(subject.client("batch"), job_definition)


class _Answers:
    """What came of the questions so far."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.checked: list[str] = []
        self.unread: list[str] = []

    @contextmanager
    def asking(self, title: str) -> Iterator[None]:
        """Note how a question went; none that fails keeps the others from being asked."""
        try:
            yield
        except NO_ANSWER as error:
            self.unread.append(f"{title}: {why_unread(error)}")
        except DiagnosisError as error:
            self.unread.append(f"{title}: {error}")
        except Exception as error:  # a diagnosis must not hide the failure that it is to explain
            self.unread.append(f"{title}: {error!r}")
        else:
            self.checked.append(title)


def _in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    """One finding per cause, with all its evidence; the certain ones first."""
    by_cause: dict[Cause, Finding] = {}
    for one in findings:
        before = by_cause.get(one.cause)
        by_cause[one.cause] = one.model_copy(
            update={
                "certain": one.certain or (before is not None and before.certain),
                "evidence": f"{before.evidence} {one.evidence}" if before else one.evidence,
            }
        )
    return tuple(sorted(by_cause.values(), key=lambda one: not one.certain))
