"""Records of one benchmark run: its planned and collected jobs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date, datetime
from typing import Literal, Self

from pydantic import AwareDatetime, Field

from batchmark.core import formatting
from batchmark.core.clusters.file_system_cost import FileSystemWorst
from batchmark.core.clusters.multi_node import FileSystem
from batchmark.core.config import PurchaseOption, Target
from batchmark.core.failures.endings import Ending
from batchmark.core.own_jobs import OwnJobPlan
from batchmark.core.prices import SECONDS_PER_HOUR, exact
from batchmark.core.record import Record
from batchmark.core.version import Version
from batchmark_job.result.document import ResultDocument
from batchmark_job.result.scaling_options import ScalingOptions
from batchmark_job.result.sharing_options import SharingOptions
from batchmark_job.result.values import Shown
from batchmark_job.result.version import GivenVersion

Purpose = Literal["scheduled", "confirmation", "calibration"]
CONFIRMATION: Purpose = "confirmation"  # a fresh job for a suspect; no part of its run's figure


class JobLimits(Record):
    """A job's limits, used for the cost caps and for SubmitJob."""

    submissions: int = Field(
        ge=1,
        description="2 if the job can move to the On-Demand queue after its Spot attempts, "
        "otherwise 1",
    )
    attempts: int = Field(ge=1, description="attempts per submission")
    timeout_seconds: int = Field(ge=1, description="timeout per attempt")


class PlannedJob(Record):
    """One of a run's planned jobs: the n-th repeat of a suite on a target."""

    target: Shown
    device: Literal["cpu", "cuda"] = Field(description="device that the target measures")
    instance_type: Shown = Field(description="EC2 instance type that the target requests")
    suite: Shown
    repeat: int = Field(ge=1)
    dtype: Shown = Field(
        description="number format of every row, or 'suite' if the suite chooses it"
    )
    result_prefix: Shown = Field(description="s3:// folder of this job's result documents")
    purpose: Purpose = Field(
        default="scheduled",
        description="why the job runs; 'confirmation' means that it is a fresh job to check a "
        "suspicious figure",
    )
    limits: JobLimits | None = Field(
        default=None, description="null in plans from older releases, which set no limits"
    )
    sharing: SharingOptions | None = Field(
        default=None,
        description="options for a sharing suite; null if the suite uses its defaults or is not a "
        "sharing suite",
    )
    scaling: ScalingOptions | None = Field(
        default=None, description="plan of a multi-node job; null for other jobs"
    )
    own_job: OwnJobPlan | None = Field(
        default=None,
        description="plan of a job that was not written for Batchmark; null for other jobs",
    )
    version: GivenVersion | None = Field(
        default=None, description="version of what the job measures; null if none was specified"
    )

    @property
    def nodes(self) -> int:
        """The number of instances that the job occupies at once."""
        return self.scaling.nodes if self.scaling else 1

    @property
    def name(self) -> str:
        """A name that is unique among a target's jobs in a run."""
        return f"{self.measures}-{self.repeat}"

    @property
    def measures(self) -> str:
        """The suite, followed by the job's size, node count or replica count if it has one."""
        if self.scaling:
            variant = f"-variant-{self.scaling.variant}" if self.scaling.variant else ""
            return f"{self.suite}-on-{self.scaling.nodes}{variant}"
        if self.own_job and self.own_job.axis:
            return f"{self.suite}-{self.own_job.axis}-{self.own_job.size}"
        apart = self.sharing.separate_replicas if self.sharing else None
        return self.suite if apart is None else f"{self.suite}-of-{apart}"


class TargetWorst(JobLimits):
    """The worst-case cost of a target's jobs that have the same instance type and limits."""

    target: Shown
    instance_type: Shown
    jobs: int = Field(ge=1)
    instances: int | None = Field(
        default=None, description="total number of instances for all jobs; null if each job has one"
    )
    idle_seconds: int = Field(
        default=0,
        ge=0,
        description="total time that nodes spend waiting for each other, or for Batch to "
        "terminate them; 0 if each job has one instance",
    )
    usd_per_hour: float | None = Field(description="On-Demand price; null if unknown")
    usd: float | None = Field(
        description="cost, rounded up to the next cent; null if the price is unknown"
    )

    @property
    def seconds(self) -> int:
        """The worst-case total time of all instances, in seconds."""
        working = self.counted * self.submissions * self.attempts * self.timeout_seconds
        return working + self.idle_seconds

    @property
    def counted(self) -> int:
        """The number of instances that the target's jobs are charged for."""
        return self.jobs if self.instances is None else self.instances

    @property
    def cents(self) -> int | None:
        """The worst-case cost in cents, rounded up; computed exactly, not with floats."""
        if self.usd_per_hour is None:
            return None
        return math.ceil(100 * exact(self.usd_per_hour) * self.seconds / SECONDS_PER_HOUR)

    @property
    def idle(self) -> str:
        """The idle seconds as a term of the formula in `__str__`; empty if there are none."""
        return f" + {self.idle_seconds:,} s idle" if self.idle_seconds else ""

    def __str__(self) -> str:
        usd = formatting.usd(self.usd) if self.usd is not None else "unknown"
        times = formatting.TIMES
        jobs = f"jobs {self.jobs}"
        if self.instances is not None:
            jobs = f"nodes {self.instances} in {self.jobs} jobs"
        return (
            f"{self.target}: {usd} ({jobs} {times} submissions {self.submissions} "
            f"{times} attempts {self.attempts} {times} {self.timeout_seconds} s{self.idle} at "
            f"{self.usd_per_hour or 'no known'} USD per hour)"
        )


class WorstCase(Record):
    """The worst-case cost of a run, with the prices used."""

    targets: tuple[TargetWorst, ...]
    file_system: FileSystemWorst | None = Field(
        default=None, description="the file system that the run creates; null if it needs none"
    )
    usd: float | None = Field(description="total cost; null if any part has no known price")
    region: Shown
    prices_as_of: date
    prices_source: Shown
    notes: tuple[Shown, ...] = Field(description="problems with the prices, such as their age")

    @property
    def cents(self) -> int | None:
        found = [each.cents for each in self.parts]
        known = [cents for cents in found if cents is not None]
        return sum(known) if len(known) == len(found) else None

    @property
    def parts(self) -> tuple[TargetWorst | FileSystemWorst, ...]:
        """The parts of the total: the targets and the file system, if the run creates one."""
        return (*self.targets, *([self.file_system] if self.file_system else ()))

    @property
    def most(self) -> str:
        """The total in words; it says if a job can be charged twice."""
        if self.usd is None:
            return "an unknown sum"
        twice = any(each.submissions > 1 for each in self.targets)
        counted = " (Spot jobs counted twice: they may run again On-Demand)" if twice else ""
        return f"{formatting.usd(self.usd)}{counted}"

    @property
    def unpriced(self) -> list[str]:
        """The instance types whose price is unknown."""
        return [each.instance_type for each in self.targets if each.usd_per_hour is None]

    def usd_of_job(self, target: str, nodes: int) -> float | None:
        """Return the worst-case cost of a target's job on `nodes` nodes; None if it is unknown."""
        worst = next((each for each in self.targets if each.target == target), None)
        if worst is None or worst.usd is None:
            return None
        return nodes * (worst.usd / worst.counted)


class RunPlan(Record):
    """A run's plan: its jobs, in the order of its mapped tasks, and its worst-case cost."""

    jobs: tuple[PlannedJob, ...]
    worst_case: WorstCase | None = Field(
        default=None,
        description="null for fresh jobs and in plans from older releases",
    )
    dag_id: Shown | None = Field(default=None, description="null for fresh jobs and in older plans")
    run_id: Shown | None = Field(default=None, description="like dag_id")
    dry_run: bool = Field(
        default=False, description="whether the run was only planned, with nothing submitted"
    )
    spending_key: Shown | None = Field(
        default=None,
        description="key of the run's spending record; null in dry runs, for fresh "
        "jobs and in older plans",
    )
    file_system: FileSystem | None = Field(
        default=None, description="the file system that the run creates; null if it needs none"
    )
    compute_environment: Shown | None = Field(
        default=None,
        description="compute environment of the nodes that mount the file system; "
        "null if there is none",
    )
    sides: dict[Shown, Target] = Field(
        default={},
        description="targets for a comparison's existing queues outside the installation, by side",
    )

    @property
    def own_job(self) -> str | None:
        """The name of the user's job or comparison that the plan is for; None for other runs."""
        first = self.jobs[0].own_job if self.jobs else None
        return first.name if first else None


class InterruptedAttempt(Record):
    """An earlier attempt that lost its host, with the result document that it left."""

    job_id: str
    job_attempt: int = Field(ge=1)
    document_uri: str = Field(description="S3 URI of its raw result document")
    document_sha256: str | None = Field(default=None, description="see StoredJob")
    document_url: str = Field(description="browser link to its raw result document")
    measured_rows: int = Field(ge=0)


class StoredJob(Record):
    """A planned job with a result, stored in `collected.json` with links to its log and document.

    The document itself is stored only at `document_uri`.
    """

    planned: PlannedJob
    job_id: str
    job_attempt: int = Field(ge=1)
    log_group: str = Field(
        description="CloudWatch log group, or the S3 bucket if the log is stored there"
    )
    log_stream: str = Field(description="log stream in that group, or the log's key in the bucket")
    log_url: str = Field(description="link to the log stream, or to the object in the bucket")
    document_uri: str = Field(description="S3 URI of the raw result document")
    document_url: str = Field(description="browser link to the raw result document")
    document_sha256: str | None = Field(
        default=None,
        description="SHA-256 of the raw result document when it was collected; null if an older "
        "release collected it, in which case it is not checked",
    )
    created_at: AwareDatetime
    runnable_at: AwareDatetime | None = Field(
        default=None,
        description="when its last attempt became RUNNABLE, to the second; null if Batch's event "
        "is missing",
    )
    starting_at: AwareDatetime | None = Field(
        default=None, description="like runnable_at, but for STARTING"
    )
    started_at: AwareDatetime
    stopped_at: AwareDatetime
    document: ResultDocument | None = Field(
        default=None, exclude=True, description="only stored by older releases"
    )
    purchase_option: PurchaseOption | None = Field(
        default=None, description="how its instance was purchased; null if unknown"
    )
    earlier_seconds: float | None = Field(
        default=0,
        ge=0,
        description="total run time of all attempts before the last one, including those of a "
        "replaced job; for an array or multi-node job, only those of the replaced job; null if "
        "unknown",
    )
    replaced_job_id: str | None = Field(
        default=None, description="id of the Spot job that this On-Demand job replaced"
    )
    host: str | None = Field(
        default=None, description="ARN of the container instance that it ran on; null if unknown"
    )
    interrupted: tuple[InterruptedAttempt, ...] = Field(
        default=(),
        description="earlier attempts that left a result document, which is kept but not compared",
    )
    failure: str | None = Field(
        default=None,
        description="why Batch reports the job as failed; null if it does not",
    )
    ending: Ending | None = Field(
        default=None, description="how the job ended; null if it succeeded"
    )
    doubt: Shown | None = Field(
        default=None,
        description="Batch's warning about a successful job's container; null if there is none",
    )
    instance_seconds: float | None = Field(
        default=None,
        ge=0,
        description="for an array job's first child, the time during which any child was "
        "running, over all attempts, because the children share one instance; for a multi-node "
        "job's main node, its run time; null for other jobs",
    )

    @property
    def batch_seconds(self) -> float | None:
        """The run time according to Batch; None if its start and stop times are inconsistent."""
        seconds = (self.stopped_at - self.started_at).total_seconds()
        return seconds if seconds > 0 else None

    @property
    def charged_seconds(self) -> float | None:
        """The instance seconds of all attempts, including a replaced job's; None if unknown.

        Each node is charged for the main node's run time, because all nodes exist throughout it.
        """
        ran = self.batch_seconds if self.instance_seconds is None else self.instance_seconds
        if ran is None or self.earlier_seconds is None:
            return None
        return self.planned.nodes * (self.earlier_seconds + ran)

    def with_document(self, document: ResultDocument) -> CollectedJob:
        return CollectedJob(**dict(self) | {"document": document})


class CollectedJob(StoredJob):
    """A planned job with its result document."""

    document: ResultDocument = Field(exclude=True)

    @property
    def version(self) -> Version:
        """The measured version; fields that the plan lacks come from the document."""
        given = (self.planned.version or GivenVersion()).over(self.document.version)
        digest = self.document.environment.image_digest
        return Version(**given.model_dump(), image_digest=digest)


class LostJob(Record):
    """A planned job without a result, and the reason why it has none."""

    planned: PlannedJob
    job_id: str | None
    reason: str
    instance_type: str | None = Field(
        default=None, description="EC2 instance type that it must have run on; null outside AWS"
    )
    seconds: float | None = Field(
        default=None,
        ge=0,
        description="total run time of all its attempts on all its nodes; null if unknown",
    )
    ending: Ending | None = Field(
        default=None, description="how the job ended; null unless Batch reports a failure"
    )
    not_run: bool = Field(
        default=False,
        description="whether it was never submitted because the first job of its side had failed",
    )
    document_sha256: str | None = Field(
        default=None,
        description="SHA-256 of its collected document, which has since become unreadable",
    )
    interrupted: tuple[InterruptedAttempt, ...] = Field(
        default=(),
        description="earlier attempts that left a result document, which is kept but not compared",
    )

    @property
    def why(self) -> str:
        """The reason's first line; the following lines can quote the end of the job's log."""
        return self.reason.partition("\n")[0]

    @property
    def left_nothing(self) -> str:
        return f"its job left no result: {self.why.rstrip('.')}"


class StoredRun(Record):
    """A run's jobs, as stored in `collected.json`."""

    run_id: str
    jobs: tuple[StoredJob, ...]
    lost: tuple[LostJob, ...] = ()
    superseded: tuple[LostJob, ...] = Field(
        default=(), description="jobs that were replaced by others but still cost money"
    )

    def with_jobs(self, jobs: Iterable[CollectedJob], lost: Iterable[LostJob] = ()) -> CollectedRun:
        """Return the run with these jobs in place of its own, and `lost` added to its lost jobs."""
        return CollectedRun(**dict(self) | {"jobs": tuple(jobs), "lost": (*self.lost, *lost)})

    def joined(self, other: StoredRun) -> Self:
        """Return a copy that also contains the jobs from another part of the run."""
        lists = ("jobs", "lost", "superseded")
        both = {name: (*getattr(self, name), *getattr(other, name)) for name in lists}
        return self.model_copy(update=both)


class CollectedRun(StoredRun):
    jobs: tuple[CollectedJob, ...]
    notes: tuple[str, ...] = Field(
        default=(), exclude=True, description="caveats about its documents"
    )

    @property
    def began_at(self) -> datetime | None:
        """When its first job began; None if no job has a result."""
        return min((job.document.started_at for job in self.jobs), default=None)


def job_limits(target: Target) -> JobLimits:
    has_fallback_queue = target.on_demand_queue not in {None, target.job_queue}
    return JobLimits(
        submissions=2 if has_fallback_queue else 1,
        attempts=target.attempts,
        timeout_seconds=target.timeout_seconds,
    )


def purchase_option(target: Target, compute_environment: str | None) -> PurchaseOption | None:
    """Return how a job's instance was purchased; None if that is unknown.

    It is known only for the target's own compute environments, and never outside Batch.
    """
    ours = target.compute_environments
    if compute_environment is None:
        return None
    if compute_environment == ours.spot:
        return "spot"
    return "on_demand" if compute_environment == ours.on_demand else None
