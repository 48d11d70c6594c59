"""The result document: everything that a job passes on to the rest of Batchmark.

The job writes it, Airflow reads it, and nothing rewrites it. Every duration is in seconds and every
size in bytes. `make schema` exports this module as `job_container/result.schema.json`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from enum import StrEnum
from itertools import accumulate
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import FailFast, Field, ValidationError, model_validator
from pydantic_core import from_json

from batchmark_job.result.confidence import CONFIDENCE_TEXT
from batchmark_job.result.own_job import OwnersCheck, OwnJob
from batchmark_job.result.printable import printable
from batchmark_job.result.scaling import Scaling
from batchmark_job.result.sharing import Sharing
from batchmark_job.result.values import (
    MOST_BYTES,
    MOST_KEYS,
    MOST_ROWS,
    MOST_SAMPLES_IN_ALL,
    Amount,
    Count,
    Few,
    Model,
    Moment,
    Name,
    OfSamples,
    Parameter,
    PositiveCount,
    PositiveSeconds,
    PositiveSize,
    Rate,
    Ratio,
    Reading,
    Seconds,
    Share,
    Size,
    Text,
    optional,
)
from batchmark_job.result.version import GivenVersion

# History of the schema, newest first. A reader accepts the versions in SUPPORTED_VERSIONS only.
# 2  (2026-11) trials, stopping, conditions, flags, energy; marks, ceilings, telemetry.
#      All that is new is optional, so version 1 still reads. Later, as optional: ami_id and
#      code_version. Later still, bounds of all values, which no measurement reaches; then
#      process_samples and thread_settings; kernel_seconds and latency_seconds; then the host's
#      GPU clock and daemons, and its root volume; then turn_samples; then sharing; then scaling;
#      then image, check and own_job; then calls_per_sample; then doubts, and no time of a user's
#      own jobs whose times can't be; then version; then log_line.
#   1  (2026-11) first version
SCHEMA_VERSION: Final = 2
SUPPORTED_VERSIONS = (1, 2)

_Row = TypeVar("_Row", bound=Hashable)


class ResultError(ValueError):
    """Raised for an unusable result document; the message says why."""


class Device(StrEnum):
    """The kind of processor measured."""

    CPU = "cpu"
    CUDA = "cuda"


class MeasurementStatus(StrEnum):
    MEASURED = "measured"
    SKIPPED = "skipped"  # can't be measured here: too large or not supported
    FAILED = "failed"  # should have worked: an exception, a wrong result
    UNSETTLED = "unsettled"  # its samples were still drifting at the end; kept, never compared
    INTERRUPTED = "interrupted"  # the job was told to stop while measuring it


class Environment(Model):
    """The machine and software that were measured; missing and unknown values are null."""

    instance_type: Name | None = Field(description="EC2 instance type; null outside EC2")
    availability_zone: Name | None = optional("null outside EC2")
    cpu_model: Name
    cpu_cores: PositiveCount = Field(description="number of physical cores in the machine")
    cpu_threads: PositiveCount = Field(
        description="number of logical CPUs that this process may use"
    )
    compute_threads: PositiveCount = Field(
        description="number of threads that the math libraries may use"
    )
    memory_bytes: PositiveSize
    gpu_model: Name | None = Field(description="starts with 'simulated' if tests simulate a GPU")
    gpu_count: Count
    gpu_memory_bytes: Size | None = Field(description="memory of one GPU")
    driver_version: Name | None
    cuda_version: Name | None
    torch_version: Name
    python_version: Name
    kernel: Name
    image_digest: Name | None = Field(
        description="container image digest; null outside a container"
    )
    image: Name | None = optional(
        "image of a job not written for Batchmark, as named in its job definition"
    )
    compute_environment: Name | None = optional("AWS Batch compute environment; null outside Batch")
    last_level_cache_bytes: Size | None = optional("last-level cache of the device measured")
    ami_id: Name | None = optional("machine image; null outside EC2")
    thread_settings: Few[Name] = optional(
        "variables that are set to control how math libraries' threads wait and where they run, as "
        "NAME=value",
        (),
    )
    gpu_application_clock_hz: Amount | None = optional(
        "clock set for running kernels; null if none"
    )
    gpu_daemons: Name | None = optional(
        "which of DCGM, MPS and persistence run on the host, or 'none'; null without a GPU, or "
        "if the host's sockets can't be seen"
    )
    root_volume: Name | None = optional(
        "the host's root volume, as configured in Terraform; null outside EC2"
    )
    code_version: Name | None = optional(
        "first 12 hex digits of the SHA-256 of the job's own source files"
    )


class Implementation(Model):
    """The library whose code was timed, for example torch 2.13.0 or opencv 5.0.0."""

    name: Name
    version: Name
    threads: PositiveCount | None = optional("CPU threads it ran with")


class Phases(Model):
    """How long each phase of a call takes, as medians over several calls; null if unknown."""

    allocate_seconds: Seconds | None = optional("allocating memory for the inputs, without reuse")
    host_to_device_seconds: Seconds | None = None
    compute_seconds: Seconds | None = None
    device_to_host_seconds: Seconds | None = None
    kernel_seconds: Seconds | None = optional(
        "GPU time of calls that waited in its queue; null if calls are long or can't be queued"
    )
    latency_seconds: Seconds | None = optional(
        "time on an idle GPU until the host sees that the work is done"
    )


class Correctness(Model):
    """The largest error against a float64 reference, relative to the reference's largest value."""

    relative_error: float = Field(ge=0)
    tolerance: float = Field(gt=0)

    @property
    def passed(self) -> bool:
        return self.relative_error <= self.tolerance


Outcome = Literal["chosen", "slower", "wrong", "failed", "refused"]


class Trial(Model):
    """A short trial of an implementation before the measurement; all trials use the same inputs."""

    implementation: Implementation
    outcome: Outcome
    reason: Text | None = optional("why it was refused, failed or wrong")
    median_seconds: PositiveSeconds | None = None
    calls: Count = Field(default=0, description="number of timed warm calls")
    correctness: Correctness | None = None


Criterion = Literal["precise", "max_samples", "max_seconds"]


class Stopping(Model):
    """The reason why sampling ended."""

    criterion: Criterion
    relative_half_width: Ratio | None = Field(
        description=f"relative half-width of the median's {CONFIDENCE_TEXT} interval at the end; "
        "null with fewer than 6 samples"
    )


class Conditions(Model):
    """The machine's state at a moment or while the samples were taken; null if unknown."""

    cpu_frequency_hz: Amount | None = optional("mean over the CPUs")
    cpu_steal_share: Share | None = optional("share of CPU time that the hypervisor took away")
    cpu_wait_share: Share | None = optional(
        "share of their runnable time that the row's threads spent waiting for a CPU"
    )
    gpu_clock_hz: Amount | None = optional("streaming multiprocessors")
    gpu_memory_clock_hz: Amount | None = None
    gpu_temperature_celsius: Reading | None = None
    gpu_power_watts: Amount | None = None
    gpu_throttle_reasons: Few[Name] = optional(
        "NVML's reasons for lowering the clocks, such as sw_power_cap", ()
    )


class Measurement(Model):
    """One row: a workload with certain parameters, in a dtype.

    `samples_seconds` are the durations of warm calls, grouped by process and in the order in which
    they ran. `cold_seconds` is the duration of the implementation's first call, in a process that
    has loaded the libraries but called nothing yet.

    If tasks share a device (`sharing`), the parameters also name `mode` and `replicas`, and `form`
    and `disturbance` unless they are the defaults. A sample is then the length of a time window
    divided by the number of steps that all replicas together made in it. With a disturbance, only
    the steps of the other replicas count.

    If several nodes measure together (`scaling`), the parameters also name `nodes` and `devices`
    (per node). A sample is then one call of all of them: a training step on the batches of all
    devices, an all-reduce, or a pass over all files; its items and bytes are totals over all nodes.

    For a job that was not written for Batchmark (`check`), a row is either the whole job, whose
    sample is the seconds from start to stop, or a metric that the job reported. The parameters then
    name the metric's unit and whether higher or lower is better. Its samples are the values, or
    their reciprocals if higher is better, so that lower is better in every row. The parameter
    `start` separates cold and warm instances.
    """

    workload: Name
    parameters: dict[Name, Parameter]
    dtype: Name
    status: MeasurementStatus
    reason: Text | None = optional(
        "why it was skipped, failed, unsettled or interrupted, or has few samples; also remarks, "
        "such as that a step used NumPy"
    )
    implementation: Implementation | None = None
    cold_seconds: PositiveSeconds | None = None
    samples_seconds: OfSamples[PositiveSeconds] = ()
    process_samples: OfSamples[PositiveCount] = optional(
        "samples taken by each process that measured the row, in order; empty if there was only "
        "one process",
        (),
    )
    turn_samples: OfSamples[PositiveCount] = optional(
        "samples taken in each turn, process by process; other rows have turns in between; "
        "empty if each process took one turn",
        (),
    )
    phases: Phases | None = None
    flops: Size | None = optional("floating-point operations of a call")
    items: PositiveCount | None = optional("images that a call processes")
    bytes_moved: Size | None = optional(
        "minimum bytes that a call reads and writes in device memory"
    )
    correctness: Correctness | None = None
    check: OwnersCheck | None = optional(
        "replaces `correctness` for a job not written for Batchmark"
    )
    timer: Literal["monotonic", "cuda_events"] | None = optional("clock that timed the samples")
    calls_per_sample: PositiveCount | None = optional(
        "number of calls averaged in a sample, if calls are short"
    )
    trials: Few[Trial] = optional("trials of all implementations, including the chosen one", ())
    input_sets: PositiveCount | None = optional(
        "number of inputs used in rotation, so that caches don't hold them"
    )
    caches_filled: Amount | None = optional(
        "bytes of all input sets, or of what is written between calls if those are too few, "
        "relative to the last-level cache; null if unknown"
    )
    warmup_calls: Size | None = None
    unrecorded_calls: Size | None = optional(
        "calls made between the samples, if calls are so short that all samples allowed would "
        "take only a moment"
    )
    stopping: Stopping | None = None
    throttled_samples: OfSamples[Count] = optional(
        "indexes of samples taken while the device was slowed down", ()
    )
    outlier_samples: OfSamples[Count] = optional(
        "indexes of samples far from the others; flagged, not removed", ()
    )
    multimodal: bool | None = optional("the samples cluster around more than one value")
    conditions_before: Conditions | None = None
    conditions_during: Conditions | None = None
    conditions_after: Conditions | None = None
    peak_memory_bytes: Size | None = optional(
        "peak memory of a process that measured the row, in its first turn and with all input "
        "sets: torch's on CUDA, all of it on the CPU"
    )
    energy_joules: Amount | None = optional(
        "energy of the GPU per warm call, including the idle moment after it; null without "
        "NVML's counter, or if something is written between calls"
    )
    sharing: Sharing | None = optional("how tasks shared the device; null if a single task used it")
    scaling: Scaling | None = optional(
        "the nodes of a multi-node job; null for any other suite's rows"
    )

    @model_validator(mode="after")
    def _status_fits(self) -> Self:
        if self.status is MeasurementStatus.MEASURED:
            missing = [
                name
                for name in ("implementation", "cold_seconds", "samples_seconds")
                if not getattr(self, name)
            ]
            if not (self.correctness or self.check):
                missing.append("correctness")
            if missing:
                raise ValueError(f"a row with status 'measured' needs {', '.join(missing)}")
            if any(each and not each.passed for each in (self.correctness, self.check)):
                raise ValueError("a row whose correctness check failed must have status 'failed'")
        elif not self.reason:
            raise ValueError(f"a row with status '{self.status}' needs a reason")
        for name in ("process_samples", "turn_samples"):
            counted = sum(getattr(self, name))
            if counted and counted != len(self.samples_seconds):
                raise ValueError(
                    f"its {name} add up to {counted}, but it has {len(self.samples_seconds)} "
                    "samples"
                )
        turns_end = set(accumulate(self.turn_samples))
        if turns_end and not turns_end.issuperset(accumulate(self.process_samples)):
            raise ValueError("one of its turns spans two processes")
        return self


class Marks(Model):
    """When a job reached each of its stages; null if it did not, or if the time is unknown.

    The image pull and the container's start come from the ECS agent's task metadata.
    """

    image_pull_started_at: Moment | None = None
    image_pull_stopped_at: Moment | None = None
    container_started_at: Moment | None = None
    process_started_at: Moment
    imported_at: Moment | None = optional("libraries are loaded")
    device_ready_at: Moment | None = optional("the CUDA context exists")
    inputs_ready_at: Moment | None = optional("the first row's first call can begin")
    first_call_at: Moment | None = optional("the device finished the first call of the first row")
    trial_ended_at: Moment | None = optional("the first row's implementation is chosen and checked")
    steady_at: Moment | None = optional("the first row's warm-up ended")


class Ceiling(Model):
    """The highest rate that this device reached in this job, for comparison with rows."""

    kind: Literal["compute", "copy", "read"]
    dtype: Name | None = Field(description="dtype of the matrix product; null for copy and read")
    rate_per_second: Rate = Field(
        description="flop/s of a large matrix product, bytes/s read plus written by a large "
        "copy, or bytes/s read by a large sum",
    )
    description: Text = Field(description="what was run, such as torch.mm of 4096 x 4096")


class MetricSummary(Model):
    """One telemetry metric over the whole job."""

    metric: Name
    unit: Name
    samples: PositiveCount
    minimum: Reading | None = Field(description="null if the minimum is unknown")
    mean: Reading
    maximum: Reading


class ResultDocument(Model):
    """Everything that one attempt of a job measured."""

    schema_version: Literal[1, 2] = SCHEMA_VERSION
    run_id: Name
    job_id: Name = Field(description="AWS Batch job id; 'local' when run by hand")
    job_attempt: PositiveCount
    target: Name
    suite: Name
    requested_device: Literal["auto", "cpu", "cuda"]
    actual_device: Device
    status: Literal["complete", "interrupted"]
    started_at: Moment
    finished_at: Moment
    total_seconds: PositiveSeconds | None = Field(
        description="from process start until the document is written, including ceilings; null "
        "if the times of a job not written for Batchmark are impossible"
    )
    environment: Environment
    measurements: Annotated[tuple[Measurement, ...], FailFast(), Field(max_length=MOST_ROWS)]
    marks: Marks | None = None
    ceilings: Few[Ceiling] = ()
    telemetry: Few[MetricSummary] = ()
    own_job: OwnJob | None = optional(
        "details of a job not written for Batchmark; null for any other"
    )
    version: GivenVersion | None = optional("version of what is measured; null if not given")

    @model_validator(mode="after")
    def _times_fit(self) -> Self:
        if self.finished_at < self.started_at:
            raise ValueError(
                f"finished_at {self.finished_at} is before started_at {self.started_at}"
            )
        return self

    @model_validator(mode="after")
    def _each_row_once(self) -> Self:
        if row := first_twice(
            (row.workload, frozenset(row.parameters.items()), row.dtype)
            for row in self.measurements
        ):
            workload, parameters, dtype = row
            raise ValueError(f"the row {workload} {dict(parameters)} {dtype} appears twice")
        return self

    @model_validator(mode="after")
    def _samples_fit(self) -> Self:
        count = sum(len(row.samples_seconds) for row in self.measurements)
        if count > MOST_SAMPLES_IN_ALL:
            raise ValueError(
                f"it has {count} samples, more than the limit of {MOST_SAMPLES_IN_ALL}"
            )
        return self

    def to_json(self) -> str:
        return self.model_dump_json(indent=2)


def first_twice(rows: Iterable[_Row]) -> _Row | None:
    """Return the first row that repeats an earlier one, or None."""
    seen: set[_Row] = set()
    for row in rows:
        if row in seen:
            return row
        seen.add(row)
    return None


def parse_document(text: str | bytes) -> ResultDocument:
    """Parse a result document.

    Raises:
        ResultError: the text is not JSON, is too large, has an unknown version, or violates the
            schema.
    """
    if len(text) > MOST_BYTES:
        raise ResultError(f"not a result document: larger than {MOST_BYTES / 2**20:.0f} MiB")
    try:
        raw: Any = from_json(text)  # unlike json.loads, it rejects deep nesting
    except ValueError as error:
        raise ResultError(f"not a result document: invalid JSON ({error})") from error
    if not isinstance(raw, dict) or "schema_version" not in raw:
        raise ResultError("not a result document: it has no schema_version")
    version = raw["schema_version"]
    if type(version) is not int or version not in SUPPORTED_VERSIONS:
        known = ", ".join(str(v) for v in SUPPORTED_VERSIONS)
        raise ResultError(
            f"result document has schema_version {version!r:.100}, but this version of "
            f"Batchmark supports {known}; use a job image and plugins from the same release"
        )
    # each key that the schema lacks would be an error of its own
    if (keys := _most_keys(raw)) > MOST_KEYS:
        raise ResultError(
            f"result document violates schema {version}: an object has {keys} keys, but at most "
            f"{MOST_KEYS} are allowed"
        )
    try:
        return ResultDocument.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        said = printable(f"{where:.300}: {first['msg']:.1000}")
        raise ResultError(f"result document violates schema {version}: {said}") from error


def _most_keys(value: Any) -> int:
    """Return how many keys the largest object in a JSON value has."""
    most, left = 0, [value]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            most = max(most, len(value))
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
    return most


def json_schema() -> dict[str, Any]:
    return ResultDocument.model_json_schema()
