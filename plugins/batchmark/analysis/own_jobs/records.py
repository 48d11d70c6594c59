"""Records of a user's own job: times, costs and metrics by side, and which side is best."""

from __future__ import annotations

from pydantic import Field

from batchmark.analysis.cold_start import ColdStart
from batchmark.analysis.cost import PriceBasis
from batchmark.analysis.judging.noise import RowNoise
from batchmark.analysis.pooling import TargetRecord
from batchmark.analysis.samples import Provenance
from batchmark.analysis.study import Studied, Study
from batchmark.core.intervals import Estimate
from batchmark.core.own_jobs import JobSize
from batchmark.core.record import Record
from batchmark.core.row_values import ToldMetric
from batchmark_job.result.own_job import BadLine, Start

GPU_UTILIZATION = "GPUUtilization"
FEWEST_GPU_SAMPLES = 5  # over a side's jobs, one every 5 s; judgment


class Place(Record):
    """A job size and kind of instance start; figures are compared only if they share both."""

    size: JobSize | None = Field(description="null if the job has no size axis")
    start: Start | None = Field(description="how the instance started; null if unknown")


class MetricFigure(Record):
    """One metric that a side's jobs reported."""

    metric: str
    unit: str
    higher_is_better: bool
    value: Estimate = Field(description="median over all samples of all jobs, in the metric's unit")
    values: int = Field(ge=1)
    jobs: int = Field(ge=1)
    usd_per_unit: Estimate | None = Field(
        description="hourly price / hourly output; null unless the unit ends in /s and higher is "
        "better"
    )

    @property
    def told(self) -> ToldMetric:
        """The name, unit and direction; metrics are compared only if they share all three."""
        return ToldMetric(self.metric, self.unit, self.higher_is_better)


class JobFigure(Record):
    """The figures for a side's jobs at one place."""

    place: Place
    seconds: Estimate | None = Field(description="time from start to stop; null if no job is valid")
    problem: str | None = Field(default=None, description="why no job is valid")
    longest_seconds: float | None = Field(default=None, description="time of the longest valid job")
    jobs: int = Field(ge=0, description="number of valid jobs")
    command_seconds: float | None = Field(description="median time of the command alone")
    waiting_seconds: float | None = Field(description="median time from submission to start")
    usd_per_job: Estimate | None = Field(
        description="On-Demand cost; null if there is no price or no valid job"
    )
    checked_by: tuple[str, ...] = Field(
        description="kinds of OwnersCheck that ran; for a checksum, a phrase that includes the "
        "output's path"
    )
    metrics: tuple[MetricFigure, ...]
    warnings: tuple[str, ...] = ()
    doubts: tuple[str, ...] = Field(
        default=(), description="doubts reported by any of its jobs, including invalid ones"
    )
    provenance: tuple[Provenance, ...]

    @property
    def kept_seconds(self) -> float | None:
        """The longest job's time, or the interval's upper end if longer; None if unknown."""
        if self.seconds is None:
            return None
        interval = self.seconds.interval
        return max(self.longest_seconds or 0.0, interval.high if interval else self.seconds.value)


class JobSide(Record):
    """One side's results in a study of a user's own job: its figures, price and bad lines.

    A side is a target or, in a comparison, an existing queue and job definition.
    """

    target: TargetRecord
    price: PriceBasis
    figures: tuple[JobFigure, ...]
    cold_start: ColdStart | None
    refused: str | None = Field(default=None, description="why its jobs can't be pooled")
    bad_lines: tuple[BadLine, ...] = Field(description="distinct bad lines from all jobs")
    bad_lines_by_job: tuple[int, ...] = Field(
        default=(), description="number of bad lines in each job that had any"
    )
    bad_lines_left_out: int = 0
    metrics_left_out: int = 0

    def jobs_at(self, size: JobSize | None) -> int:
        """Return the number of valid jobs of this size, on cold and warm instances together."""
        return sum(figure.jobs for figure in self.figures if figure.place.size == size)

    @property
    def idle_gpu_samples(self) -> int:
        """The number of GPU utilization samples in valid jobs if all are 0 %; 0 if a GPU was busy.

        Also 0 if there are too few to tell, as a short job's kernels can run between two samples.
        """
        found = [
            one
            for job in self.target.jobs
            for one in job.telemetry
            if one.metric == GPU_UTILIZATION and not job.failed
        ]
        samples = sum(one.samples for one in found)
        busy = any(one.maximum for one in found)
        return 0 if busy or samples < FEWEST_GPU_SAMPLES else samples


class Duel(Record):
    """A comparison of two sides at one place, by job time or by one metric."""

    place: Place
    metric: str | None = Field(description="metric compared; null if job time is compared")
    unit: str | None = Field(default=None, description="unit of the metric")
    higher_is_better: bool | None = Field(
        default=None, description="whether higher values of the metric are better"
    )
    first: str
    second: str
    better: str | None = Field(description="the better target; null if unknown")
    ratio: Estimate = Field(description="how many times better the first target is")
    noise: RowNoise

    @property
    def told(self) -> ToldMetric | None:
        """The metric compared, or None if job time is compared."""
        if self.metric is None:
            return None
        return ToldMetric(self.metric, self.unit or "", bool(self.higher_is_better))


class DeadlineStep(Record):
    """The cheapest side that meets deadlines from `from_seconds` up to the next step's."""

    from_seconds: float = Field(
        description="time of a side's longest job, or the upper end of its interval if that is "
        "longer"
    )
    target: str = Field(
        description="side with the lowest cost, whether or not the difference is clear"
    )
    rivals: tuple[str, ...] = Field(
        default=(), description="other sides that meet the deadline and aren't known to cost more"
    )
    usd_per_job: float
    jobs: int = Field(
        ge=1, description="number of the target's jobs, all of which met the deadline"
    )


class Best(Record):
    """The best sides at one place."""

    place: Place
    fastest: str | None = Field(description="fastest side; null if unknown")
    cheapest: str | None = Field(description="cheapest side with a price; null if unknown")
    unpriced: tuple[str, ...] = Field(
        default=(), description="sides with a time but no price, which are excluded from `cheapest`"
    )
    deadlines: tuple[DeadlineStep, ...] = Field(
        description="deadlines, shortest first; empty if there are no prices"
    )
    within: DeadlineStep | None = Field(
        default=None,
        description="best side within the requested deadline; null if no deadline was requested "
        "or no side meets it",
    )


class OwnJobStudy(Study):
    """A study of a user's own job or of a comparison, with figures for all its sides."""

    name: str
    axis: str | None
    deadline_seconds: float | None
    existing: bool = Field(
        default=False,
        description="whether this is a comparison of existing queues, which others may also use",
    )
    sides: tuple[JobSide, ...]
    duels: tuple[Duel, ...] = Field(
        description="one for each pair of sides and place, by job time and by each metric"
    )
    best: tuple[Best, ...] = Field(
        description="one per place; cold instances and small sizes come first"
    )

    @property
    def studied(self) -> tuple[Studied, ...]:
        return tuple(Studied(self.suite, side.target, side.price) for side in self.sides)

    @property
    def cold_starts(self) -> tuple[ColdStart, ...]:
        return tuple(side.cold_start for side in self.sides if side.cold_start)
