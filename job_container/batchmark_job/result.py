"""The result document: the only thing a job hands to the rest of Batchmark.

The job writes it, Airflow reads it, and nobody rewrites it. Every duration is in seconds and every
size in bytes. `job_container/result.schema.json` is this module exported (`make schema`).
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

# History of the schema, newest first. A reader accepts the versions in SUPPORTED_VERSIONS only.
#   2  (2026-11) trials, stopping, conditions, flags, energy; marks, ceilings, telemetry.
#      All that is new is optional, so version 1 still reads. Later, as optional: ami_id and
#      code_version.
#   1  (2026-11) first version
SCHEMA_VERSION: Final = 2
SUPPORTED_VERSIONS = (1, 2)

Parameter = int | float | str
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ResultError(ValueError):
    """A result document that can't be used; the message says why."""


class Device(StrEnum):
    CPU = "cpu"
    CUDA = "cuda"


class MeasurementStatus(StrEnum):
    MEASURED = "measured"
    SKIPPED = "skipped"  # can't be measured here: too large, not supported
    FAILED = "failed"  # should have worked: an exception, a wrong result
    UNSETTLED = "unsettled"  # its samples were still drifting at the end; kept, never compared
    INTERRUPTED = "interrupted"  # the job was told to stop while it measured


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Environment(_Model):
    """What the measurements ran on; null where there is no such thing, or it can't be found out."""

    instance_type: str | None = Field(description="EC2 instance type; null off EC2")
    availability_zone: str | None = Field(default=None, description="null off EC2")
    cpu_model: str
    cpu_cores: int = Field(ge=1, description="physical cores of the machine")
    cpu_threads: int = Field(ge=1, description="logical CPUs that this process may use")
    compute_threads: int = Field(ge=1, description="threads the math libraries were given")
    memory_bytes: int = Field(gt=0)
    gpu_model: str | None
    gpu_count: int = Field(ge=0)
    gpu_memory_bytes: int | None = Field(description="memory of one GPU")
    driver_version: str | None
    cuda_version: str | None
    torch_version: str
    python_version: str
    kernel: str
    image_digest: str | None = Field(description="container image digest; null outside a container")
    compute_environment: str | None = Field(
        default=None, description="AWS Batch compute environment; null outside Batch"
    )
    last_level_cache_bytes: int | None = Field(default=None, description="of the device measured")
    ami_id: str | None = Field(default=None, description="machine image; null off EC2")
    code_version: str | None = Field(
        default=None, description="first 12 hex digits of the SHA-256 of the job's own source files"
    )


class Implementation(_Model):
    """The library whose code was timed, for example torch 2.13.0 or opencv 5.0.0."""

    name: str
    version: str
    threads: int | None = Field(default=None, ge=1, description="CPU threads it ran with")


class Phases(_Model):
    """Where a call spends its time, as medians over several calls; null where unknown."""

    allocate_seconds: Seconds | None = Field(
        default=None, description="memory for the inputs, none of it kept from before"
    )
    host_to_device_seconds: Seconds | None = None
    compute_seconds: Seconds | None = None
    device_to_host_seconds: Seconds | None = None


class Correctness(_Model):
    """The largest error against a float64 reference, relative to the reference's largest value."""

    relative_error: float = Field(ge=0)
    tolerance: float = Field(gt=0)

    @property
    def passed(self) -> bool:
        return self.relative_error <= self.tolerance


class Trial(_Model):
    """An implementation's short trial before the measurement, all on the same inputs."""

    implementation: Implementation
    outcome: Literal["chosen", "slower", "wrong", "failed", "refused"]
    reason: str | None = Field(default=None, description="why it was refused, failed or wrong")
    median_seconds: PositiveSeconds | None = None
    calls: int = Field(default=0, ge=0, description="timed warm calls")
    correctness: Correctness | None = None


class Stopping(_Model):
    """Why sampling ended."""

    criterion: Literal["precise", "max_samples", "max_seconds"]
    relative_half_width: float | None = Field(
        ge=0, description="of the median's 95 % interval when it ended; null below 6 samples"
    )


class Conditions(_Model):
    """The machine's state at a moment or while the samples were taken; null where unknown."""

    cpu_frequency_hz: float | None = Field(default=None, ge=0, description="mean over the CPUs")
    cpu_steal_share: float | None = Field(
        default=None, ge=0, le=1, description="share of CPU time that the hypervisor gave to others"
    )
    cpu_wait_share: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="share of the time in which this process's threads had work that they waited "
        "for a CPU",
    )
    gpu_clock_hz: float | None = Field(default=None, ge=0, description="streaming multiprocessors")
    gpu_memory_clock_hz: float | None = Field(default=None, ge=0)
    gpu_temperature_celsius: float | None = None
    gpu_power_watts: float | None = Field(default=None, ge=0)
    gpu_throttle_reasons: tuple[str, ...] = Field(
        default=(), description="NVML's clock event reasons that slow it down, such as sw_power_cap"
    )


class Measurement(_Model):
    """One workload at one point of its grid.

    `samples_seconds` are the warm calls, one by one in the order they ran. `cold_seconds` is the
    implementation's first call at this point, never one of the samples; in a later row, or after
    another implementation's trial, the libraries they share are loaded already.
    """

    workload: str
    parameters: dict[str, Parameter]
    dtype: str
    status: MeasurementStatus
    reason: str | None = Field(
        default=None,
        description="why it was skipped, failed, unsettled or interrupted, or has few samples",
    )
    implementation: Implementation | None = None
    cold_seconds: PositiveSeconds | None = None
    samples_seconds: tuple[PositiveSeconds, ...] = ()
    phases: Phases | None = None
    flops: int | None = Field(default=None, ge=0, description="floating-point operations of a call")
    items: int | None = Field(default=None, ge=1, description="images that a call works through")
    bytes_moved: int | None = Field(
        default=None, ge=0, description="least bytes a call must read and write in device memory"
    )
    correctness: Correctness | None = None
    timer: Literal["monotonic", "cuda_events"] | None = Field(
        default=None, description="what timed the samples"
    )
    trials: tuple[Trial, ...] = Field(
        default=(), description="of all implementations, the chosen one too"
    )
    input_sets: int | None = Field(
        default=None, ge=1, description="inputs taken in turn, so that caches hold no old ones"
    )
    caches_filled: float | None = Field(
        default=None,
        ge=0,
        description="bytes of all input sets over those of the last-level cache; null if unknown",
    )
    warmup_calls: int | None = Field(default=None, ge=0)
    unrecorded_calls: int | None = Field(
        default=None,
        ge=0,
        description="made between the samples where calls are so short that all samples allowed "
        "would take only a moment",
    )
    stopping: Stopping | None = None
    throttled_samples: tuple[int, ...] = Field(
        default=(), description="indexes of samples taken while the device was slowed down"
    )
    outlier_samples: tuple[int, ...] = Field(
        default=(), description="indexes of samples far from the others; flagged, not removed"
    )
    multimodal: bool | None = Field(
        default=None, description="the samples gather around more than one value"
    )
    conditions_before: Conditions | None = None
    conditions_during: Conditions | None = None
    conditions_after: Conditions | None = None
    peak_memory_bytes: int | None = Field(
        default=None,
        ge=0,
        description="most memory held while sampling, all input sets included: by torch on CUDA, "
        "by the whole process on the CPU; null where the kernel's peak can't be reset",
    )
    energy_joules: float | None = Field(
        default=None, ge=0, description="of the GPU, per warm call; null without NVML's counter"
    )

    @model_validator(mode="after")
    def _status_fits(self) -> Self:
        if self.status is MeasurementStatus.MEASURED:
            missing = [
                name
                for name in ("implementation", "cold_seconds", "samples_seconds", "correctness")
                if not getattr(self, name)
            ]
            if missing:
                raise ValueError(f"a measured row needs {', '.join(missing)}")
            if self.correctness and not self.correctness.passed:
                raise ValueError("a row whose correctness check failed has status 'failed'")
        elif not self.reason:
            raise ValueError(f"a row with status '{self.status}' needs a reason")
        return self


class Marks(_Model):
    """When a job reached each of its stages; null where it did not, or nobody knows when.

    The image pull and the container's start come from the ECS agent's task metadata.
    """

    image_pull_started_at: AwareDatetime | None = None
    image_pull_stopped_at: AwareDatetime | None = None
    container_started_at: AwareDatetime | None = None
    process_started_at: AwareDatetime
    imported_at: AwareDatetime | None = Field(default=None, description="libraries are loaded")
    device_ready_at: AwareDatetime | None = Field(
        default=None, description="the CUDA context exists"
    )
    inputs_ready_at: AwareDatetime | None = Field(
        default=None, description="the first row's first call can begin"
    )
    first_call_at: AwareDatetime | None = Field(
        default=None, description="the device finished the first call of the first row"
    )
    trial_ended_at: AwareDatetime | None = Field(
        default=None, description="the first row's implementation is chosen and checked"
    )
    steady_at: AwareDatetime | None = Field(
        default=None, description="the first row's warm-up ended"
    )


class Ceiling(_Model):
    """The best rate that this device reached in this job, to compare rows with."""

    kind: Literal["compute", "copy", "read"]
    dtype: str | None = Field(description="of the matrix product; null for copy and read")
    rate_per_second: float = Field(
        gt=0,
        description="flop/s of a large product, bytes/s read plus written by a large copy, or "
        "bytes/s read by a large sum",
    )
    description: str = Field(description="what was run, such as torch.mm of 4096 x 4096")


class MetricSummary(_Model):
    """One telemetry metric over the whole job."""

    metric: str
    unit: str
    samples: int = Field(ge=1)
    minimum: float
    mean: float
    maximum: float


class ResultDocument(_Model):
    """Everything one job attempt measured."""

    schema_version: Literal[1, 2] = SCHEMA_VERSION
    run_id: str
    job_id: str = Field(description="AWS Batch job id; 'local' when run by hand")
    job_attempt: int = Field(ge=1)
    target: str
    suite: str
    requested_device: Literal["auto", "cpu", "cuda"]
    actual_device: Device
    status: Literal["complete", "interrupted"]
    started_at: AwareDatetime
    finished_at: AwareDatetime
    total_seconds: PositiveSeconds = Field(
        description="process start to the document, ceilings included"
    )
    environment: Environment
    measurements: tuple[Measurement, ...]
    marks: Marks | None = None
    ceilings: tuple[Ceiling, ...] = ()
    telemetry: tuple[MetricSummary, ...] = ()

    @model_validator(mode="after")
    def _times_fit(self) -> Self:
        if self.finished_at < self.started_at:
            raise ValueError(
                f"finished_at {self.finished_at} is before started_at {self.started_at}"
            )
        return self

    def to_json(self) -> str:
        return self.model_dump_json(indent=2)


def parse_document(text: str | bytes) -> ResultDocument:
    """Read a result document.

    Raises:
        ResultError: it is not JSON, of an unknown schema version, or breaks the schema.
    """
    try:
        raw: Any = json.loads(text)
    except ValueError as error:
        raise ResultError(f"not a result document: invalid JSON ({error})") from error
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version not in SUPPORTED_VERSIONS:
        known = ", ".join(str(v) for v in SUPPORTED_VERSIONS)
        raise ResultError(
            f"result document has schema_version {version!r}, this Batchmark reads {known}; "
            "use the job image and the plugins of one release"
        )
    try:
        return ResultDocument.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        raise ResultError(
            f"result document breaks schema {version}: {where}: {first['msg']} "
            f"({error.error_count()} problem(s) in all)"
        ) from error


def json_schema() -> dict[str, Any]:
    return ResultDocument.model_json_schema()
