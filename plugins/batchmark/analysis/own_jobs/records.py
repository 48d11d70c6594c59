"""What is known of an own job on all its sides: times, dollars, metrics, and which side is best."""

from __future__ import annotations

from pydantic import Field

from batchmark.analysis.cold_start import ColdStart
from batchmark.analysis.cost import PriceBasis
from batchmark.analysis.noise import RowNoise
from batchmark.analysis.pooling import TargetRecord
from batchmark.analysis.samples import Provenance
from batchmark.core.intervals import Estimate
from batchmark.core.own_jobs import JobSize
from batchmark.core.record import Record
from batchmark_job.result_own_job import BadLine, Start


class Place(Record):
    """What figures of several sides must have in common to be compared."""

    size: JobSize | None = Field(description="null where the job has no axis")
    start: Start | None = Field(description="of the instance; null where nobody knows")


class MetricFigure(Record):
    """One metric that a side's jobs told."""

    metric: str
    unit: str
    higher_is_better: bool
    value: Estimate = Field(description="in its unit; median over all values of all jobs")
    values: int = Field(ge=1)
    jobs: int = Field(ge=1)
    usd_per_unit: Estimate | None = Field(
        description="of what is better the higher: of a rate (unit ends in /s) the hour's price by "
        "what it does in an hour, of another metric dollars per job by its value; else null"
    )


class JobFigure(Record):
    """A side's jobs at one place."""

    place: Place
    seconds: Estimate | None = Field(description="from start to stop; null where nothing counts")
    problem: str | None = Field(default=None, description="why nothing counts")
    longest_seconds: float | None = Field(default=None, description="of a job that counts")
    jobs: int = Field(ge=0, description="that count")
    command_seconds: float | None = Field(description="of the command alone; median")
    waiting_seconds: float | None = Field(description="from submission to start; median")
    usd_per_job: Estimate | None = Field(description="On-Demand; null without a price")
    checked_by: tuple[str, ...] = Field(description="kinds of OwnersCheck")
    metrics: tuple[MetricFigure, ...]
    warnings: tuple[str, ...] = ()
    provenance: tuple[Provenance, ...]


class JobSide(Record):
    """A target, or a side of a comparison, with all its figures."""

    target: TargetRecord
    price: PriceBasis
    figures: tuple[JobFigure, ...]
    cold_start: ColdStart | None
    refused: str | None = Field(default=None, description="why its jobs can't be pooled")
    bad_lines: tuple[BadLine, ...] = Field(description="of all jobs, the same line once")
    bad_lines_left_out: int = 0
    metrics_left_out: int = 0


class Duel(Record):
    """Two sides at one place, by their time or one metric."""

    place: Place
    metric: str | None = Field(description="null for the time of whole jobs")
    first: str
    second: str
    better: str | None = Field(description="of the two; null where it is not known")
    ratio: Estimate = Field(description="how many times better the first is")
    noise: RowNoise


class DeadlineStep(Record):
    """From this deadline on, this side is the cheapest that keeps it."""

    from_seconds: float = Field(description="upper end of the side's interval, or its longest job")
    target: str
    usd_per_job: float


class Best(Record):
    """Which side to take at one place."""

    place: Place
    fastest: str | None = Field(description="null where it is not known")
    cheapest: str | None = Field(description="as fastest")
    deadlines: tuple[DeadlineStep, ...] = Field(description="shortest first; none without prices")
    within: DeadlineStep | None = Field(
        default=None, description="of the deadline asked for; null if none was, or no side keeps it"
    )


class OwnJobStudy(Record):
    """One own job, or one comparison, on all its sides."""

    name: str
    suite: str
    axis: str | None
    deadline_seconds: float | None
    sides: tuple[JobSide, ...]
    duels: tuple[Duel, ...] = Field(description="of any two sides, each two once")
    best: tuple[Best, ...] = Field(description="by place, cold instances and small sizes first")
