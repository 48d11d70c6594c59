"""The subject of a diagnosis: a queue, its compute environments, and its waiting job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial, wraps
from typing import Any, NamedTuple

from batchmark.aws.batch_targets import requirements_of
from batchmark.aws.boto_clients import Clients, all_pages
from batchmark.aws.job_description import JobDescription
from batchmark.checks.diagnosis.records import Finding
from batchmark.core.errors import DiagnosisError

Described = dict[str, Any]

MOST_WAITING_JOBS = 1000  # a full page of ListJobs; of a longer queue, the oldest may be missed


class Needs(NamedTuple):
    """The resources that a job requests on one instance."""

    vcpus: float
    memory_mib: int
    gpus: int

    def __str__(self) -> str:
        return f"{self.vcpus:g} vCPUs, {self.memory_mib} MiB and {self.gpus} GPU(s)"


@dataclass
class Subject:
    """Data that a diagnosis's questions share. `client` returns the boto3 client for a service."""

    client: Clients
    now: datetime
    events_log_group: str | None
    queue: Described
    job: JobDescription | None = None
    container: Described = field(default_factory=dict)
    nodes: int = 1
    environments: list[Described] = field(default_factory=list)
    waiting: list[Described] | None = None

    @property
    def known_environments(self) -> list[Described]:
        """Return the queue's compute environments.

        Raises:
            DiagnosisError: they are unknown, because AWS did not return them.
        """
        if not self.environments:
            raise DiagnosisError("the compute environments are unknown")
        return self.environments

    @property
    def candidates(self) -> list[Described]:
        """The environments where the job could be placed, or all of them if none is usable."""
        usable = list(filter(is_usable, self.known_environments))
        return usable or self.environments

    @property
    def needs(self) -> Needs | None:
        """The resources that the job requests on one instance, or None if unknown."""
        asked = requirements_of(self.container)
        vcpus, memory = asked.get("VCPU"), asked.get("MEMORY")
        if vcpus is None or memory is None:
            return None
        return Needs(vcpus, int(memory), int(asked.get("GPU", 0)))

    @cached_property
    def groups_of_batch(self) -> list[Described]:
        """The Auto Scaling groups that have the tag required by Batch's managed policies."""
        filters = [{"Name": "tag-key", "Values": ["AWSBatchServiceTag"]}]
        autoscaling, operation = self.client("autoscaling"), "describe_auto_scaling_groups"
        return list(all_pages(autoscaling, operation, "AutoScalingGroups", Filters=filters))

    def findings(self, obstacle_in: Callable[[Described], Finding | None]) -> Iterator[Finding]:
        """Yield each candidate's finding, certain only if every candidate is surely blocked."""
        obstacles = list(map(obstacle_in, self.candidates))
        nowhere_left = all(obstacle and obstacle.certain for obstacle in obstacles)
        for obstacle in filter(None, obstacles):
            yield obstacle.model_copy(update={"certain": nowhere_left})


def in_each_environment(
    obstacle_in: Callable[[Subject, Described], Finding | None],
) -> Callable[[Subject], Iterator[Finding]]:
    """Decorator that asks a question about each environment where the job could be placed."""

    @wraps(obstacle_in)
    def question(subject: Subject) -> Iterator[Finding]:
        return subject.findings(partial(obstacle_in, subject))

    return question


def name_of(environment: Described) -> str:
    return str(environment["computeEnvironmentName"])


def resources_of(environment: Described) -> Described:
    """Return an environment's instance types, subnets and limits; empty if it is unmanaged."""
    resources: Described = environment.get("computeResources") or {}
    return resources


def is_usable(environment: Described) -> bool:
    return environment.get("state") == "ENABLED" and environment.get("status") == "VALID"


def is_spot(environment: Described) -> bool:
    return bool(resources_of(environment).get("type") == "SPOT")


def waiting_jobs(batch: Any, queue: Described) -> list[Described]:
    """Return the queue's RUNNABLE jobs, oldest first, or its STARTING jobs if there are none."""
    for status in ("RUNNABLE", "STARTING"):
        asked = {"jobQueue": queue["jobQueueArn"], "jobStatus": status}
        most = {"MaxItems": MOST_WAITING_JOBS}
        jobs = all_pages(batch, "list_jobs", "jobSummaryList", PaginationConfig=most, **asked)
        if found := sorted(jobs, key=lambda job: int(job["createdAt"])):
            return found
    return []


def nodes_of(described: Mapping[str, Any]) -> int:
    """Return how many instances a job needs at once, given its description or job definition."""
    return int(described.get("nodeProperties", {}).get("numNodes", 1))
