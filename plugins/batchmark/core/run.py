"""One benchmark run's records: the jobs planned and the jobs collected."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from batchmark.budget import WorstCase
from batchmark.config import PurchaseOption
from batchmark.record import Record
from batchmark_job.result import ResultDocument

Purpose = Literal["scheduled", "confirmation", "calibration"]
CONFIRMATION: Purpose = "confirmation"  # of a suspect's fresh job; no series is made of it


class PlannedJob(Record):
    """One Batch job of a run: a target measuring a suite, for the n-th time."""

    target: str
    device: Literal["cpu", "cuda"] = Field(description="device that the target stands for")
    instance_type: str = Field(description="EC2 instance type that the target asks for")
    suite: str
    repeat: int = Field(ge=1)
    dtype: str = Field(description="of every row, or 'suite' for the suite's own")
    result_prefix: str = Field(description="s3:// folder of this job's result documents")
    purpose: Purpose = Field(
        default="scheduled",
        description="why it runs; confirmation: once more, because a figure looked odd",
    )


class RunPlan(Record):
    """All jobs that a run submits, in the order of its mapped tasks."""

    jobs: tuple[PlannedJob, ...]
    worst_case: WorstCase | None = Field(
        default=None, description="null where an older release planned, as is spending_key"
    )
    dag_id: str | None = Field(default=None, description="null where an older release planned")
    dry_run: bool = Field(default=False, description="nothing of it was submitted")
    spending_key: str | None = Field(
        default=None, description="of the run's record among those of its month"
    )


class InterruptedAttempt(Record):
    """An attempt before the one that counts, and what it had measured when its host was lost."""

    job_id: str
    job_attempt: int = Field(ge=1)
    document_uri: str = Field(description="s3:// address of its raw result document")
    document_url: str = Field(description="opens that document in a browser")
    measured_rows: int = Field(ge=0)


class CollectedJob(Record):
    """A planned job that left a document, and where to find its traces."""

    planned: PlannedJob
    job_id: str
    job_attempt: int = Field(ge=1)
    log_group: str
    log_stream: str
    log_url: str = Field(description="opens the log stream in AWS or in the local cloud")
    document_uri: str = Field(description="s3:// address of the raw result document")
    document_url: str = Field(description="opens the raw result document in a browser")
    created_at: AwareDatetime
    runnable_at: AwareDatetime | None = Field(
        default=None, description="last attempt, to the second; null without the event"
    )
    starting_at: AwareDatetime | None = Field(default=None, description="as runnable_at")
    started_at: AwareDatetime
    stopped_at: AwareDatetime
    document: ResultDocument
    purchase_option: PurchaseOption | None = Field(
        default=None, description="how its instance was bought; null if unknown"
    )
    earlier_seconds: float = Field(
        default=0,
        ge=0,
        description="from start to stop of all attempts before the last, a replaced job's too",
    )
    replaced_job_id: str | None = Field(
        default=None, description="the Spot job that this one was submitted On-Demand for"
    )
    host: str | None = Field(
        default=None, description="ARN of the container instance that it ran on; null if unknown"
    )
    interrupted: tuple[InterruptedAttempt, ...] = Field(
        default=(), description="earlier attempts that left a document; it is kept and not compared"
    )
    failure: str | None = Field(
        default=None, description="why Batch calls the job failed: rows failed, or it was stopped"
    )


class LostJob(Record):
    """A planned job without a result, and why."""

    planned: PlannedJob
    job_id: str | None
    reason: str
    instance_type: str | None = Field(
        default=None, description="the only one it can have run on; null outside AWS"
    )
    seconds: float | None = Field(
        default=None, ge=0, description="from start to stop of all its attempts; null if unknown"
    )
    interrupted: tuple[InterruptedAttempt, ...] = Field(
        default=(), description="earlier attempts that left a document; it is kept and not compared"
    )


class CollectedRun(Record):
    """All jobs of a run."""

    run_id: str
    jobs: tuple[CollectedJob, ...]
    lost: tuple[LostJob, ...] = ()
    superseded: tuple[LostJob, ...] = Field(
        default=(), description="jobs of this run that others count instead of; they were paid too"
    )
