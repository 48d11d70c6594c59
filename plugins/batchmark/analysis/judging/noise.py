"""Noise tables: how much a target's identical jobs differ on each row, recorded for later runs."""

from __future__ import annotations

import math
from statistics import median
from typing import Literal

from pydantic import AwareDatetime, ConfigDict, Field, ValidationError

from batchmark.analysis.judging.significance import (
    ENOUGH_REPEATS,
    JobNoise,
    NoiseSource,
    Resolution,
    log_spread,
    relative,
    upper_bound,
)
from batchmark.analysis.pooling import TargetJobs
from batchmark.analysis.samples import RowSamples, kept_samples, row_key
from batchmark.core.errors import NoiseError
from batchmark.core.fingerprint import Fingerprint
from batchmark.core.record import Record, first_problem
from batchmark_job.result.confidence import CONFIDENCE_TEXT
from batchmark_job.result.document import Device, Measurement
from batchmark_job.result.values import Parameter

FEWEST_JOBS = 2  # needed for a standard deviation
# A difference below this is "no difference" if the jobs would have found it; judgment.
SMALL_CHANGE = 0.1
JOBS_A_SIDE = (1, 3, 5, 10, 20)  # for which a calibration states the smallest detectable change


class SideNoise(Record):
    """One target's job-to-job scatter on a row."""

    floor: float = Field(description="job-to-job standard deviation, relative to the median")
    degrees: float | None = Field(description="degrees of freedom of the floor; null if assumed")
    source: NoiseSource


class RowNoise(Record):
    """The job-to-job noise that a row's verdict took into account."""

    lead: float = Field(
        description="lead of the GPU target: mean log of the CPU jobs' medians minus the mean "
        "log of the GPU jobs' medians"
    )
    gpu: SideNoise
    cpu: SideNoise
    floor: float = Field(
        description="job-to-job standard deviation of the noisier target, relative to its median"
    )
    smallest_detectable_change: float = Field(
        description="relative change that 95 of 100 runs with this many jobs would detect; 1 or "
        "more if not known"
    )
    critical_change: float = Field(
        description="relative change that noise alone exceeds in 1 of 200 comparisons"
    )
    source: NoiseSource = Field(description="the less reliable of the two targets' noise sources")
    note: str | None = Field(
        default=None, description="why the row is undecided, or why a calibration was not used"
    )

    @property
    def shows_small_changes(self) -> bool:
        """Whether an undecided row means "no difference", as jobs this quiet would show one."""
        return self.smallest_detectable_change <= SMALL_CHANGE


class RowName(Record):
    """A row's identity: one point in a suite's grid."""

    workload: str
    parameters: dict[str, Parameter]
    dtype: str

    @classmethod
    def of(cls, row: Measurement) -> RowName:
        return RowName(workload=row.workload, parameters=row.parameters, dtype=row.dtype)


class RowScatter(Record):
    """The calibrated job-to-job scatter of one row."""

    row: RowName
    implementations: tuple[str, ...] = Field(description="names and versions of the measured code")
    jobs: int = Field(ge=FEWEST_JOBS)
    median_seconds: float = Field(gt=0, description="median of the jobs' medians")
    floor: float = Field(gt=0, description="job-to-job standard deviation, relative to the median")
    floor_upper: float = Field(
        gt=0, description=f"one-sided {CONFIDENCE_TEXT} upper confidence bound on the floor"
    )
    smallest_detectable_change: dict[int, float] = Field(
        description="relative change that 95 of 100 comparisons would detect, by jobs per side"
    )

    @property
    def job_noise(self) -> JobNoise:
        return JobNoise(math.log1p(self.floor), self.jobs - 1, "calibration")


class LeftOut(Record):
    """A row that could not be calibrated, and the reason why."""

    row: RowName
    reason: str


class NoiseTable(Record):
    """A calibration: one target's noise on one suite."""

    model_config = ConfigDict(validate_by_name=True, serialize_by_alias=True)

    schema_version: Literal[1] = 1
    suite: str
    dtype: str = Field(description="planned dtype; `suite` means that each row has its own")
    target: str
    region: str | None = Field(description="AWS region; null outside AWS")
    run_id: str
    created_at: AwareDatetime = Field(description="when the last of its jobs ended")
    jobs: int = Field(ge=FEWEST_JOBS)
    fingerprint: Fingerprint
    rows: tuple[RowScatter, ...] = Field(alias="series")
    left_out: tuple[LeftOut, ...] = ()

    def to_json(self) -> str:
        return self.model_dump_json(indent=2)

    def outlives(self, other: NoiseTable) -> str | None:
        """Return why this table should be kept, or None if the other one should replace it."""
        if other.created_at < self.created_at:
            return f"its jobs ended later, at {self.created_at:%Y-%m-%d %H:%M}"
        if self.fingerprint.device is Device.CUDA and other.fingerprint.device is Device.CPU:
            return f"it was measured on {Device.CUDA}, but these jobs ran on the CPU"
        if self.fingerprint == other.fingerprint and other.jobs < ENOUGH_REPEATS <= self.jobs:
            return f"it has {self.jobs} jobs, but the new one has only {other.jobs}"
        return None

    def changes_since(self, target: TargetJobs) -> str:
        """List the changes to the target since the calibration that affect its noise."""
        if not target.jobs:
            return ""
        return self.fingerprint.differences(Fingerprint.of(target.jobs[0].document))

    def find(self, samples: RowSamples) -> RowScatter | None:
        """Return a row's noise, or None if it was not calibrated with the same code."""
        key, implementations = row_key(samples.row), set(samples.implementations)
        for scatter in self.rows:
            if row_key(scatter.row) == key and implementations <= set(scatter.implementations):
                return scatter
        return None


def parse_table(text: str | bytes) -> NoiseTable:
    """Read a stored table.

    Raises:
        NoiseError: the text isn't a noise table from this release.
    """
    try:
        return NoiseTable.model_validate_json(text)
    except ValidationError as error:
        raise NoiseError(
            f"not a noise table from this release: {first_problem(error)}; run noise_calibration "
            "again"
        ) from error


def measure_noise(
    target: TargetJobs, *, suite: str, dtype: str, region: str | None, run_id: str
) -> NoiseTable:
    """Measure one target's noise from its identical jobs.

    Raises:
        NoiseError: there are fewer than two jobs, or they ran in different environments.
    """
    if len(target.jobs) < FEWEST_JOBS:
        lost = f" ({target.lost[0].why})" if target.lost else ""
        raise NoiseError(
            f"{target.name} has {len(target.jobs)} job(s) with a result{lost}; measuring noise "
            f"requires at least {FEWEST_JOBS}"
        )
    if refusal := target.refusal():
        raise NoiseError(refusal)
    measured: list[RowScatter] = []
    left_out: list[LeftOut] = []
    for samples in target.samples.values():
        problem = samples.problem and f"{target.name}: {samples.problem}"
        if not problem and len(samples.measured) < FEWEST_JOBS:
            problem = f"only one job measured it; {samples.reasons() or 'the others did not'}"
        if problem:
            left_out.append(LeftOut(row=RowName.of(samples.row), reason=problem))
        else:
            measured.append(row_scatter(samples))
    return NoiseTable(
        suite=suite,
        dtype=dtype,
        target=target.name,
        region=region,
        run_id=run_id,
        created_at=max(job.stopped_at for job in target.jobs),
        jobs=len(target.jobs),
        fingerprint=Fingerprint.of(target.jobs[0].document),
        rows=tuple(measured),
        left_out=tuple(left_out),
    )


def job_medians(samples: RowSamples) -> list[float]:
    """Return the median, in seconds, of each job that measured the row."""
    return [median(kept_samples(row)) for _, row in samples.measured]


def row_scatter(samples: RowSamples) -> RowScatter:
    """Measure the job-to-job scatter of a row that two or more jobs measured."""
    medians = job_medians(samples)
    jobs, log_sd = len(medians), log_spread(medians)
    noise = JobNoise(log_sd, jobs - 1, "calibration")
    return RowScatter(
        row=RowName.of(samples.row),
        implementations=tuple(samples.implementations),
        jobs=jobs,
        median_seconds=median(medians),
        floor=relative(log_sd),
        floor_upper=relative(upper_bound(log_sd, jobs - 1)),
        smallest_detectable_change={
            number: Resolution(noise, number, noise, number).smallest_detectable_change
            for number in JOBS_A_SIDE
        },
    )
