"""Published configuration and plans for users' own jobs, which weren't written for Batchmark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from batchmark.core.config import Published
from batchmark.core.record import Record
from batchmark.core.suites import MAX_REPEATS
from batchmark_job.result.options import STRICT, Options, Whole, option
from batchmark_job.result.own_job import BETTER, METRIC, START, UNIT
from batchmark_job.result.values import Line, PositiveCount, Shown
from batchmark_job.result.version import Given, GivenVersion

# Airflow variable, kept by Terraform in the SSM parameter /airflow/variables/batchmark_own_jobs.
VARIABLE = "batchmark_own_jobs"
NAME_PATTERN = r"^[a-z][a-z0-9-]{0,31}$"
PARAMETER_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,31}$"
# Parameter names that rows use besides the axis.
TAKEN = (START, METRIC, UNIT, BETTER)
MOST_SIZES = 20
SCHEDULED = "schedule__"  # how the ids of runs by a job's own schedule begin
MOST_BAD_LINES = 100  # that are kept of a job, and shown of a side
SHORT_SECONDS = 2.0  # of a command, about as long as a container's start; judgment

JobName = Annotated[str, Field(pattern=NAME_PATTERN)]
# A whole number stays one, so that `Ref::size` becomes 64, not 64.0.
LARGEST_SIZE = 10**18
JobSize = (
    Annotated[int, STRICT, Field(gt=0, le=LARGEST_SIZE)]
    | Annotated[float, STRICT, Field(gt=0, le=LARGEST_SIZE)]
)
Sizes = Annotated[tuple[JobSize, ...], Field(max_length=MOST_SIZES)]
Repeats = Annotated[Whole, Field(ge=1, le=MAX_REPEATS)]
Deadline = Annotated[float, STRICT, Field(gt=0, le=1e9)]
MOST_SIDES = 20


def _repeats(place: str) -> Any:
    return option(
        6,
        f"Number of jobs per {place} and size. Confidence intervals need at least 6. Each queue "
        "also runs one extra job first, to start its instance.",
    )


def _deadline() -> Any:
    return option(
        None,
        "The report names the cheapest target that finishes within this time, excluding "
        "waiting time. Leave empty for no deadline.",
    )


class OwnJobRun(Options):
    """Options for running a user's own job that is defined in Terraform."""

    job: JobName | None = option(
        None, "Which of your own jobs to run: a key of own_jobs in Terraform."
    )
    sizes: Sizes = option(
        (), "Sizes to measure, one number per line; by default, those set in Terraform."
    )
    targets: tuple[Line, ...] = option(
        (), "Targets to run on; by default, every target that the job is defined for."
    )
    repeats: Repeats = _repeats("target")
    deadline_seconds: Deadline | None = _deadline()


class ComparisonRun(Options):
    """Options for comparing existing jobs."""

    name: JobName = option(
        "comparison",
        "Name for the results; reusing a name continues its history.",
    )
    sides: Annotated[tuple[dict[str, Any], ...], Field(max_length=MOST_SIDES)] = option(
        (),
        "Objects, one per side, such as "
        '{"name": "old", "job_queue": "images", "job_definition": "resize:7"}; optional fields '
        "are parameters, environment, command, vcpus, memory_mib, gpus, timeout_seconds, check, "
        "output, output_sha256, shell, commit, branch and label. The job definitions must be "
        "listed in Terraform. Anyone who may start this DAG can run any command with those "
        "definitions' IAM roles.",
        must=True,
    )
    parameter: Annotated[str, Field(pattern=PARAMETER_PATTERN)] | None = option(
        None,
        "Name of the placeholder for the sizes in the sides' commands, such as size for "
        "Ref::size. Leave empty if the commands have none.",
    )
    sizes: Sizes = option((), "Values of the parameter, one number per line.")
    repeats: Repeats = _repeats("side")
    deadline_seconds: Deadline | None = _deadline()

    def contradiction(self, name: Callable[[str], str]) -> str | None:
        parameter = f"{name('parameter')} is {self.parameter!r}"
        if self.parameter in TAKEN:
            return (
                f"{parameter}, which is a reserved name: choose another one, also in the "
                f"commands; reserved names: {', '.join(TAKEN)}"
            )
        if self.parameter and not self.sizes:
            return f"{parameter}, but there are no sizes: add some, or leave the parameter empty"
        return None


class JobAxis(Record):
    """A parameter of a job's command and the sizes to measure."""

    parameter: str = Field(pattern=PARAMETER_PATTERN)
    sizes: tuple[JobSize, ...] = Field(min_length=1, max_length=MOST_SIZES)

    @field_validator("parameter")
    @classmethod
    def _is_not_taken(cls, name: str) -> str:
        if name in TAKEN:
            raise ValueError(f"{', '.join(TAKEN)} are reserved names: choose another")
        return name


class Versioned(Record):
    """Something whose runs measure a version that its owner may have given."""

    commit: Given | None = Field(default=None, description="commit of the code in its image")
    branch: Given | None = Field(default=None, description="branch of that commit")
    label: Given | None = Field(
        default=None, description="free-form text for finding its runs later"
    )

    @property
    def version(self) -> GivenVersion:
        """The version that the job's runs measure, unless a run overrides it."""
        return GivenVersion(commit=self.commit, branch=self.branch, label=self.label)


class OwnJob(Versioned):
    """A user's own job, with a job definition for each of its targets."""

    command: tuple[str, ...] = Field(
        description="command, which may contain Ref:: placeholders; empty for the image's "
        "default command"
    )
    parameters: dict[Line, str] = Field(
        default={}, description="default values for the placeholders"
    )
    axis: JobAxis | None = None
    check: str | None = Field(
        default=None, description="shell command whose exit code determines whether a job passes"
    )
    output: Line | None = Field(
        default=None, description="path of the output whose SHA-256 is checked"
    )
    output_sha256: Line | None = Field(
        default=None,
        description="expected SHA-256 of the output; null if the sides' outputs only need to match",
    )
    shell: bool = Field(
        default=True, description="whether the command is started by the image's /bin/sh"
    )
    job_definitions: dict[Line, Line] = Field(
        min_length=1, description="ARNs of the job definitions, by target"
    )
    timeout_seconds: PositiveCount = Field(ge=60)
    attempts: PositiveCount
    schedule: Line | None = Field(
        default=None,
        description="cron expression or Airflow preset, in UTC; null if the job has no schedule",
    )


class OwnJobs(Published):
    variable = VARIABLE
    missing = (
        "set own_jobs in Terraform, run `terraform apply`, and allow Airflow's secrets "
        "backend to read the SSM parameter /airflow/variables/batchmark_own_jobs"
    )

    schema_version: Literal[1]
    name: Line = Field(description="name of the installation that the jobs belong to")
    region: Line
    jobs: dict[JobName, OwnJob]


class OwnJobPlan(Record):
    """The command of one Batch job at one size, and how its result is checked."""

    name: Shown = Field(
        description="name of the user's own job or comparison; also the workload in its result rows"
    )
    job_definition: Shown = Field(description="ARN of the job definition")
    command: tuple[str, ...] = Field(
        default=(),
        description="command with its parameters filled in; empty for the image's default command",
    )
    parameters: dict[str, str] = Field(default={}, description="parameters to pass to SubmitJob")
    environment: dict[str, str] = Field(
        default={},
        exclude=True,
        description="overrides for the job definition's environment variables; never stored, "
        "because their values may be secret",
    )
    vcpus: float | None = Field(
        default=None, description="override for the job definition's value; null if there is none"
    )
    memory_mib: int | None = Field(default=None, description="like vcpus")
    gpus: int | None = Field(default=None, description="like vcpus")
    axis: Shown | None = None
    size: JobSize | None = None
    shell: bool = True
    check: str | None = None
    output: Shown | None = None
    output_sha256: Shown | None = None
    deadline_seconds: float | None = Field(
        default=None,
        gt=0,
        description="deadline for a job, excluding waiting time; null if none was requested",
    )
    existing: bool = Field(
        default=False,
        description="true for a comparison, whose queues and job definitions do not belong to "
        "the installation",
    )


parse_own_jobs = OwnJobs.parse


def scheduled_run_id(name: str, due: datetime) -> str:
    """Return a run ID for a user's scheduled job; IDs generated by Airflow begin differently."""
    return f"{SCHEDULED}{name}__{due.astimezone(UTC).isoformat()}"
