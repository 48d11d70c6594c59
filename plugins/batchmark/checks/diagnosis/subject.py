"""What a diagnosis looks at: a queue, its compute environments, and the job that waits in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from batchmark.batch_environment import Clients
from batchmark.diagnosis.records import Cause, Finding, found
from batchmark.exceptions import DiagnosisError
from batchmark.job_description import JobDescription

Described = dict[str, Any]

MOST_WAITING_JOBS = 1000


class Needs(NamedTuple):
    """What a job asks of one instance."""

    vcpus: float
    memory_mib: int
    gpus: int

    def __str__(self) -> str:
        return f"{self.vcpus:g} vCPUs, {self.memory_mib} MiB and {self.gpus} GPU(s)"


class Hit(NamedTuple):
    """A cause that stands in the way of one compute environment."""

    environment: Described
    cause: Cause
    evidence: str
    certain: bool = True


@dataclass
class Subject:
    """Everything the questions share; `client` gives a boto3 client by its service's name."""

    client: Clients
    now: datetime
    events_log_group: str | None
    queue: Described
    job: JobDescription | None = None
    container: Described = field(default_factory=dict)
    environments: list[Described] = field(default_factory=list)
    waiting: list[Described] | None = None

    @property
    def known_environments(self) -> list[Described]:
        """The queue's compute environments.

        Raises:
            DiagnosisError: AWS did not tell.
        """
        if not self.environments:
            raise DiagnosisError("the compute environments are not known")
        return self.environments

    @property
    def candidates(self) -> list[Described]:
        """The environments that the job could go to; all of them where none is usable."""
        usable = [one for one in self.known_environments if is_usable(one)]
        return usable or self.environments

    @property
    def needs(self) -> Needs | None:
        """What the job asks for; None where there is no job, or one of several nodes."""
        asked = {
            one["type"]: float(one["value"])
            for one in self.container.get("resourceRequirements", ())
        }
        vcpus = asked.get("VCPU", self.container.get("vcpus"))
        memory = asked.get("MEMORY", self.container.get("memory"))
        if vcpus is None or memory is None:
            return None
        return Needs(vcpus, int(memory), int(asked.get("GPU", 0)))

    def findings(self, hits: Iterable[Hit]) -> Iterator[Finding]:
        """One finding per cause; certain only where no candidate is left without a certain hit."""
        by_cause: dict[Cause, list[Hit]] = defaultdict(list)
        sure = set()
        for hit in hits:
            by_cause[hit.cause].append(hit)
            if hit.certain:
                sure.add(name_of(hit.environment))
        nothing_is_left = sure >= {name_of(one) for one in self.candidates}
        for cause, some in by_cause.items():
            yield found(
                cause,
                " ".join(hit.evidence for hit in some),
                certain=nothing_is_left and all(hit.certain for hit in some),
            )


def name_of(environment: Described) -> str:
    return str(environment["computeEnvironmentName"])


def resources_of(environment: Described) -> Described:
    """Instance types, subnets and limits; none for an unmanaged environment."""
    resources: Described = environment.get("computeResources") or {}
    return resources


def is_usable(environment: Described) -> bool:
    return environment.get("state") == "ENABLED" and environment.get("status") == "VALID"


def is_spot(environment: Described) -> bool:
    return bool(resources_of(environment).get("type") == "SPOT")


def describe_queue(batch: Any, queue: str) -> Described | None:
    answer: list[Described] = batch.describe_job_queues(jobQueues=[queue])["jobQueues"]
    return answer[0] if answer else None


def describe_environments(batch: Any, queue: Described) -> list[Described]:
    """The queue's compute environments, in the order in which it tries them."""
    order = sorted(queue["computeEnvironmentOrder"], key=lambda one: int(one["order"]))
    names = [one["computeEnvironment"] for one in order]
    answer = batch.describe_compute_environments(computeEnvironments=names)["computeEnvironments"]
    by_name = {key: one for one in answer for key in (one["computeEnvironmentArn"], name_of(one))}
    return [by_name[name] for name in names if name in by_name]


def waiting_jobs(batch: Any, queue: Described) -> list[Described]:
    """The queue's RUNNABLE jobs, the oldest first; those STARTING where there is none."""
    for status in ("RUNNABLE", "STARTING"):
        pages = batch.get_paginator("list_jobs").paginate(
            jobQueue=queue["jobQueueArn"],
            jobStatus=status,
            PaginationConfig={"MaxItems": MOST_WAITING_JOBS},
        )
        jobs = [job for page in pages for job in page["jobSummaryList"]]
        if jobs:
            return sorted(jobs, key=lambda job: int(job["createdAt"]))
    return []


def describe_definition(batch: Any, job_definition: str) -> Described:
    """The container of a job definition, as a job without overrides would have it."""
    answer = batch.describe_job_definitions(jobDefinitions=[job_definition])["jobDefinitions"]
    container: Described = (answer[0].get("containerProperties") or {}) if answer else {}
    return container
