"""Pools a target's jobs for one suite and dtype, row by row.

Samples are pooled only across jobs that ran in the same environment.
Durations are in seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import AwareDatetime, Field

from batchmark.analysis.owners_checks import Size, check_problems, has_valid_results, size_of
from batchmark.analysis.samples import Provenance, RowKey, RowSamples, row_key
from batchmark.core.config import PurchaseOption
from batchmark.core.fingerprint import Fingerprint
from batchmark.core.intervals import Median
from batchmark.core.record import Record
from batchmark.core.run import CONFIRMATION, CollectedJob, CollectedRun, LostJob
from batchmark.core.version import NAMES, Version
from batchmark_job.result.document import (
    Device,
    Environment,
    Marks,
    MeasurementStatus,
    MetricSummary,
)
from batchmark_job.result.own_job import UNKNOWN, Start

Span = Literal["process", "batch_job"]


class JobRecord(Provenance):
    """A job whose result document was read."""

    status: Literal["complete", "interrupted"]
    created_at: AwareDatetime
    runnable_at: AwareDatetime | None
    starting_at: AwareDatetime | None
    started_at: AwareDatetime
    stopped_at: AwareDatetime
    instance_type: str | None = Field(
        description="EC2 instance type that the job ran on; null outside EC2"
    )
    purchase_option: PurchaseOption | None = Field(
        description="how the job's instance was purchased; null if unknown"
    )
    availability_zone: str | None = Field(description="zone that the job ran in; null if unknown")
    batch_seconds: float | None = Field(
        description="time from Batch's startedAt to stoppedAt; null if they are inconsistent"
    )
    earlier_seconds: float | None = Field(description="total run time of all earlier attempts")
    total_seconds: float | None = Field(
        description="time from process start until the result document is complete, including the "
        "measurement of ceilings; null if the job's times are impossible"
    )
    marks: Marks | None
    telemetry: tuple[MetricSummary, ...]
    start: Start | None = Field(
        default=None, description="how the instance of a user's own job started; null if unknown"
    )
    failed: bool = Field(
        default=False,
        description="whether a user's own job left no result; such a job may not have reported "
        "its machine",
    )


class TargetRecord(Record):
    """One target's jobs, as recorded in pairs and studies."""

    target: str
    instance_type: str = Field(description="EC2 instance type that the target represents")
    device: Literal["cpu", "cuda"] = Field(description="device that the target represents")
    actual_device: Device | None = Field(
        description="device that the jobs ran on; null if there are no jobs or they differ"
    )
    environment: Environment | None = Field(
        description="environment of the jobs; null if there are no jobs or they differ"
    )
    jobs: tuple[JobRecord, ...]
    version: Version = Field(
        default=Version(), description="version fields that all its jobs share"
    )


@dataclass
class TargetJobs:
    name: str
    device: Literal["cpu", "cuda"]
    instance_type: str
    jobs: list[CollectedJob] = field(default_factory=list)
    lost: list[LostJob] = field(default_factory=list)
    samples: dict[RowKey, RowSamples] = field(default_factory=dict)

    def record(self) -> TargetRecord:
        known = self._telling[0].document if self.jobs and not self._differences() else None
        return TargetRecord(
            target=self.name,
            instance_type=self.instance_type,
            device=self.device,
            actual_device=known and known.actual_device,
            environment=known and known.environment,
            jobs=tuple(_job_record(job) for job in self.jobs),
            version=self._version,
        )

    @property
    def _version(self) -> Version:
        versions = [job.version for job in self.jobs]
        return Version.agreed({name: [dict(one)[name] for one in versions] for name in NAMES})

    @property
    def fell_back(self) -> bool:
        """Whether this is a GPU target with a job that ran on the CPU."""
        return any(fell_back(job) for job in self.jobs)

    @property
    def _telling(self) -> list[CollectedJob]:
        """Jobs with valid results, whose environment is known; all jobs if there are none."""
        return [job for job in self.jobs if has_valid_results(job)] or self.jobs

    def refusal(self) -> str | None:
        """Return why these jobs can't be pooled or compared, or None if they can."""
        if not self.jobs:
            reasons = "; ".join(dict.fromkeys(lost.why for lost in self.lost))
            return f"{self.name} has no result: {reasons}"
        if self.device == "cpu" and any(
            job.document.actual_device is not Device.CPU for job in self._telling
        ):
            return f"{self.name} is a CPU target, but one of its jobs ran on {Device.CUDA}"
        differences = self._differences()
        if not differences:
            return None
        return (
            f"the {len(self.jobs)} jobs of {self.name} ran in different environments, so their "
            f"samples are not pooled. {'; '.join(differences)}. "
            "Run the benchmark again in one environment."
        )

    def _differences(self) -> list[str]:
        """List the properties in which the jobs' environments differ, with each value's jobs."""
        differences = []
        environments = [(job.job_id, _environment(job)) for job in self._telling]
        for name in dict.fromkeys(name for _, values in environments for name in values):
            jobs_by_value = defaultdict(list)
            for job_id, values in environments:
                if name in values:
                    jobs_by_value[values[name]].append(job_id)
            if len(jobs_by_value) > 1:
                found = (
                    f"{value or 'none'} (job {', '.join(ids)})"
                    for value, ids in jobs_by_value.items()
                )
                differences.append(f"{name}: {', '.join(found)}")
        return differences

    def checked(self, problems: Mapping[Size, str]) -> TargetJobs:
        """Pool these jobs' samples, without sizes that have a problem."""
        return replace(self, samples=_pool(self.jobs, problems))

    def total(self, span: Span) -> Median | None:
        """Return the median duration of whole jobs, using one sample per uninterrupted job."""
        complete = [job for job in self.jobs if job.document.status == "complete"]
        if span == "process":
            seconds = [job.document.total_seconds for job in complete]
        else:
            seconds = [job.batch_seconds for job in complete]
        samples = [[value] for value in sorted(filter(None, seconds))]
        return Median(samples) if samples else None


def group_jobs(run: CollectedRun) -> dict[tuple[str, str], list[TargetJobs]]:
    """Group a run's jobs by (suite, dtype) and target, without reruns of suspected regressions.

    A target with users' own jobs appears once for each instance type that its queue chose.
    """
    groups: dict[tuple[str, str], dict[str, TargetJobs]] = defaultdict(dict)

    def target_of(record: CollectedJob | LostJob) -> TargetJobs:
        planned = record.planned
        return groups[planned.suite, planned.dtype].setdefault(
            planned.target, TargetJobs(planned.target, planned.device, planned.instance_type)
        )

    for job in sorted(run.jobs, key=_order):
        if job.planned.purpose != CONFIRMATION:
            target_of(job).jobs.append(job)
    for lost in run.lost:
        if lost.planned.purpose != CONFIRMATION:
            target_of(lost).lost.append(lost)
    found: dict[tuple[str, str], list[TargetJobs]] = {}
    for key, targets in groups.items():
        problems = check_problems({name: target.jobs for name, target in targets.items()})
        found[key] = []
        for name, target in targets.items():
            parts = _by_instance_type(target)
            found[key] += [part.checked(problems[name]) for part in parts]
    return found


def _by_instance_type(target: TargetJobs) -> list[TargetJobs]:
    """Split users' own jobs by the instance type that their queue chose; keep other jobs together.

    Jobs that failed before reporting their machine are grouped with the first type.
    """
    types = [
        _instance_type(job)
        for job in target.jobs
        if job.document.own_job and has_valid_results(job)
    ]
    if len(set(types)) < 2:
        return [target]
    parts = {
        name: replace(
            target,
            name=f"{target.name} on {name or 'an unknown type'}",
            instance_type=name or target.instance_type,
            jobs=[],
            lost=[],
        )
        for name in types
    }
    first = parts[types[0]]
    for job in target.jobs:
        parts.get(_instance_type(job), first).jobs.append(job)
    sizes = {plan.size for job in target.jobs if (plan := job.planned.own_job)}
    first.lost += [
        lost for lost in target.lost if (plan := lost.planned.own_job) and plan.size not in sizes
    ]
    return list(parts.values())


def _instance_type(job: CollectedJob) -> str | None:
    return job.document.environment.instance_type


def _order(job: CollectedJob) -> tuple[int, float]:
    """Return a sort key: the repeat, then a user's job's size, as sizes run in mixed order."""
    own = job.planned.own_job
    return job.planned.repeat, (own and own.size) or 0.0


def fell_back(job: CollectedJob) -> bool:
    """Check whether a GPU target's job ran on the CPU; False for a user's own job that failed."""
    on_cpu = job.document.actual_device is Device.CPU
    return job.planned.device == "cuda" and on_cpu and has_valid_results(job)


def _pool(jobs: Iterable[CollectedJob], problems: Mapping[Size, str]) -> dict[RowKey, RowSamples]:
    pooled: dict[RowKey, RowSamples] = {}
    for job in jobs:
        for row in job.document.measurements:
            key = row_key(row)
            samples = pooled.setdefault(key, RowSamples(problems.get(size_of(row.parameters))))
            measured = row.status is MeasurementStatus.MEASURED
            (samples.measured if measured else samples.unmeasured).append((job, row))
    return pooled


def _environment(job: CollectedJob) -> dict[str, str | int | None]:
    """Return what must agree for jobs to be pooled, without unknown values of users' own jobs."""
    document = job.document
    environment = document.environment
    found = {
        **Fingerprint.of(document).named(),
        "image": environment.image_digest,
        "image reference": environment.image,
    }
    if document.own_job is None:
        return found
    untold = {"compute threads"} if environment.cpu_model == UNKNOWN else set()
    return {
        name: value
        for name, value in found.items()
        if value not in (None, UNKNOWN) and name not in untold
    }


def _job_record(job: CollectedJob) -> JobRecord:
    return JobRecord(
        **job.model_dump(include=set(JobRecord.model_fields)),
        repeat=job.planned.repeat,
        status=job.document.status,
        instance_type=job.document.environment.instance_type,
        availability_zone=job.document.environment.availability_zone,
        batch_seconds=job.batch_seconds,
        total_seconds=job.document.total_seconds,
        marks=job.document.marks,
        telemetry=job.document.telemetry,
        start=job.document.own_job and job.document.own_job.start,
        failed=not has_valid_results(job),
    )
