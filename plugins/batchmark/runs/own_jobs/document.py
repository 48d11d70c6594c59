"""Builds the result document of a user's own job from its Batch description, host and log."""

from __future__ import annotations

import math
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from batchmark.aws.batch_targets import requirements_of
from batchmark.aws.job_description import (
    JobDescription,
    batch_time,
    container_warning,
    has_run,
    is_reclaimed,
    seconds_between,
)
from batchmark.aws.job_hosts import JobHost
from batchmark.core.own_jobs import OwnJobPlan
from batchmark.core.suites import NO_DTYPE
from batchmark.runs.own_jobs.check import exit_code, owners_check, was_stopped
from batchmark.runs.own_jobs.doubts import doubts_of_log
from batchmark.runs.own_jobs.lines import MOST_COUNT, JobOutput
from batchmark.runs.result_documents import ExpectedDocument
from batchmark_job.result.document import (
    Device,
    Environment,
    Implementation,
    Marks,
    Measurement,
    MeasurementStatus,
    MetricSummary,
    ResultDocument,
)
from batchmark_job.result.metric import MetricLine
from batchmark_job.result.own_job import (
    BETTER,
    HIGHER,
    LOWER,
    METRIC,
    START,
    UNIT,
    UNKNOWN,
    OwnersCheck,
    OwnJob,
    Start,
)
from batchmark_job.result.values import (
    MOST_CHARACTERS,
    MOST_CHARACTERS_OF_NAME,
    MOST_ROWS,
    MOST_SAMPLES,
    Parameter,
)

SHORT_DIGEST = 12  # as `docker images` shortens ids
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}$")


class Image(NamedTuple):
    name: str
    tag: str | None
    digest: str | None

    @classmethod
    def of(cls, reference: str) -> Image:
        rest, _, digest = reference.partition("@")
        folder, slash, last = rest.rpartition("/")
        name, _, tag = last.partition(":")  # a registry's port is in the folder
        return cls(folder + slash + name, tag or None, digest or None)

    @property
    def version(self) -> str:
        """The image's tag, the first digits of its digest if it has no tag, or else "latest"."""
        digest = self.digest and self.digest.removeprefix("sha256:")[:SHORT_DIGEST]
        return self.tag or digest or "latest"


class Span(NamedTuple):
    """Batch's start and stop times for a job's last attempt, in epoch milliseconds."""

    start: int | None
    stop: int

    @property
    def seconds(self) -> float | None:
        """The duration; None if the times are impossible."""
        return seconds_between(self.start, self.stop)

    @property
    def problem(self) -> str:
        """What is wrong with the times, if `seconds` is None or 0."""
        if self.start is None:
            return "Batch reports no start time for it"
        return f"according to Batch, it ran for {(self.stop - self.start) / 1000:g} s"


def last_span(job: JobDescription) -> Span | None:
    """Return the span of a job's last attempt; None if it never started or has no stop time."""
    last = (job.get("attempts") or [{}])[-1]
    stop = last.get("stoppedAt", job.get("stoppedAt"))
    # As it succeeded, it has run, whatever its attempt tells.
    ran = has_run(last) or (job["status"] == "SUCCEEDED" and "stoppedAt" in last)
    return Span(last.get("startedAt"), stop) if ran and stop is not None else None


@dataclass(frozen=True)
class WatchedJob:
    """A job whose last attempt ran and stopped, even if Batch's times are impossible."""

    expected: ExpectedDocument
    plan: OwnJobPlan
    job: JobDescription
    told: JobOutput
    host: JobHost
    on_aws: bool  # false on a local cloud, whose instances stand for none of AWS's
    span: Span

    def document(self) -> ResultDocument:
        rows, left_out = self._rows()
        expected, (started_at, finished_at) = self.expected, self._times
        return ResultDocument(
            run_id=expected.run_id,
            job_id=self.job["jobId"],
            job_attempt=len(self.job["attempts"]),
            target=expected.target,
            suite=expected.suite,
            requested_device=expected.requested_device,
            actual_device=self._device(),
            status="interrupted" if was_stopped(self.job) else "complete",
            started_at=started_at,
            finished_at=finished_at,
            total_seconds=self._seconds,
            environment=self._environment(),
            measurements=tuple(rows),
            marks=Marks(
                image_pull_started_at=self.host.image_pull_started_at,
                image_pull_stopped_at=self.host.image_pull_stopped_at,
                container_started_at=self.host.container_started_at,
                process_started_at=self.told.facts.began_at or started_at,
            ),
            telemetry=tuple(self._telemetry()),
            own_job=self._own_job(left_out),
            version=expected.version,
        )

    @property
    def _container(self) -> dict[str, Any]:
        return dict(self.job.get("container", {}))

    @property
    def _seconds(self) -> float | None:
        """The run time according to Batch or, failing that, the command's; None if unknown."""
        return self.span.seconds or self.told.facts.command_seconds or None

    @property
    def _times(self) -> tuple[datetime, datetime]:
        """When the job started and stopped, consistent with `_seconds`."""
        stopped_at = batch_time(self.span.stop)
        return stopped_at - timedelta(seconds=self._seconds or 0), stopped_at

    @property
    def _waiting_from(self) -> int:
        """When waiting began: at submission, or at the end of the previous attempt."""
        stops = [each.get("stoppedAt", 0) for each in self.job["attempts"][:-1]]
        return int(max([self.job["createdAt"], *stops]))

    @cached_property
    def _check(self) -> OwnersCheck:
        return owners_check(self.plan, self.job, self.told)

    @property
    def _status(self) -> MeasurementStatus:
        """The status of all rows; losing the host doesn't count as the job's own failure."""
        if is_reclaimed(self.job):
            return MeasurementStatus.INTERRUPTED
        return MeasurementStatus.MEASURED if self._check.passed else MeasurementStatus.FAILED

    @cached_property
    def _image(self) -> Image:
        return Image.of(self._container.get("image") or UNKNOWN)

    @property
    def _begin(self) -> Start | None:
        """The kind of start; None if unknown.

        "cold" if the instance joined its cluster after waiting began, else "warm".
        """
        registered = self.host.registered_at
        if registered is None or not self.on_aws:
            return None
        return "cold" if registered > batch_time(self._waiting_from) else "warm"

    def _device(self) -> Device:
        """Return CUDA only if it was requested and a GPU was seen or, on AWS, assigned by Batch."""
        if self.expected.requested_device != Device.CUDA:
            return Device.CPU
        given = self.on_aws and self._asked_for("GPU")
        return Device.CUDA if self.told.facts.gpus or given else Device.CPU

    def _asked_for(self, kind: str) -> float:
        """Return how much of a resource the job requests, including overrides; 0 if none."""
        return requirements_of(self._container).get(kind, 0)

    def _rows(self) -> tuple[list[Measurement], int]:
        """Return rows for the job and its metrics, and the number of values that didn't fit."""
        by_row = defaultdict[tuple[tuple[str, Parameter], ...], list[MetricLine]](list)
        for line in self.told.metrics:
            better = HIGHER if line.higher_is_better else LOWER
            by_row[(METRIC, line.metric), (UNIT, line.unit), (BETTER, better)].append(line)
        rows = [self._row({}, [self._seconds] if self._seconds else [])]
        left_out = 0
        for names, lines in islice(by_row.items(), MOST_ROWS - 1):
            kept = lines[:MOST_SAMPLES]
            # So that less is better.
            samples = [1 / one.value if one.higher_is_better else one.value for one in kept]
            rows.append(self._row(dict(names), samples))
            left_out += len(lines) - len(kept)
        left_out += sum(map(len, islice(by_row.values(), MOST_ROWS - 1, None)))
        return rows, left_out

    def _row(self, names: dict[str, Parameter], samples: Sequence[float]) -> Measurement:
        parameters: dict[str, Parameter] = {}
        if self.plan.axis and self.plan.size is not None:
            parameters[self.plan.axis] = self.plan.size
        if self._begin:
            parameters[START] = self._begin
        status, reason = self._status, self._check.detail
        if not samples and status is MeasurementStatus.MEASURED:
            status = MeasurementStatus.FAILED
            reason = f"its time is unknown: {self.span.problem}"
        return Measurement(
            workload=self.plan.name,
            parameters=parameters | names,
            dtype=NO_DTYPE,
            status=status,
            reason=reason,
            implementation=Implementation(
                name=self._image.name[:MOST_CHARACTERS_OF_NAME],
                version=self._image.version[:MOST_CHARACTERS_OF_NAME],
            ),
            cold_seconds=samples[0] if samples else None,
            samples_seconds=tuple(samples),
            check=self._check,
        )

    def _environment(self) -> Environment:
        facts, on_aws = self.told.facts, self.on_aws
        threads = facts.threads or max(1, math.ceil(self._asked_for("VCPU")))
        memory = facts.memory_bytes or max(1, int(self._asked_for("MEMORY"))) * 2**20
        gpu = next(iter(facts.gpus), None)
        asked_gpus = int(self._asked_for("GPU")) if on_aws else 0
        named = self._image.digest
        digest = named if named and _DIGEST.match(named) else self.host.image_digest
        return Environment(
            instance_type=self.host.instance_type if on_aws else None,
            availability_zone=self.host.availability_zone if on_aws else None,
            cpu_model=facts.cpu_model or UNKNOWN,
            cpu_cores=threads,
            cpu_threads=threads,
            compute_threads=threads,
            memory_bytes=memory,
            gpu_model=gpu and gpu.name,
            gpu_count=len(facts.gpus) or asked_gpus,
            gpu_memory_bytes=gpu and gpu.memory_bytes,
            driver_version=gpu and gpu.driver_version,
            cuda_version=None,
            torch_version=UNKNOWN,
            python_version=UNKNOWN,
            kernel=facts.kernel or UNKNOWN,
            image_digest=_name(digest),
            image=_name(self._container.get("image")),
            compute_environment=_name(self.host.compute_environment),
            ami_id=self.host.ami_id if on_aws else None,
        )

    def _telemetry(self) -> list[MetricSummary]:
        """Return means and maxima over the whole job, and minima where they must equal the mean.

        Host memory is everything charged to the container, including its page cache.
        """
        facts, found = self.told.facts, []
        if facts.busy_share is not None:
            busy = 100 * facts.busy_share
            found.append(_summary("HostCPUUtilization", "percent", 1, busy, busy))
        if facts.peak_memory_bytes is not None:
            peak = facts.peak_memory_bytes / 1e6
            found.append(_summary("PeakMemoryAndFileCache", "megabytes", 1, peak, peak))
        if busy_gpu := facts.gpu_busy:
            samples, mean, most, memory = busy_gpu
            found.append(_summary("GPUUtilization", "percent", samples, mean, most))
            peak = memory / 1e6
            found.append(_summary("PeakGPUMemory", "megabytes", samples, peak, peak))
        return found

    def _own_job(self, left_out: int) -> OwnJob:
        plan, told = self.plan, self.told
        start = self.span.start
        waited = -1 if start is None else start - self._waiting_from
        return OwnJob(
            image=_name(self._container.get("image")),
            command=shlex.join(plan.command)[:MOST_CHARACTERS] if plan.command else None,
            wrapped=plan.shell and told.by_a_shell,
            exit_code=exit_code(self.job, told.facts),
            waiting_seconds=waited / 1000 if waited >= 0 else None,
            running_seconds=self.span.seconds,
            command_seconds=told.facts.command_seconds,
            start=self._begin,
            host=_name(self.host.container_instance),
            purchase_option=self.host.purchase_option if self.on_aws else None,
            check=self._check,
            bad_lines=tuple(told.bad_lines),
            bad_lines_left_out=told.bad_lines_left_out,
            metrics_left_out=min(told.metrics_left_out + left_out, MOST_COUNT),
            doubts=tuple(doubt[:MOST_CHARACTERS] for doubt in self._doubts()),
        )

    def _doubts(self) -> Iterator[str]:
        if self._seconds and not self.span.seconds:
            yield (
                f"{self.span.problem}, so its time covers only the command, measured by the job's "
                "own clock"
            )
        yield from doubts_of_log(self.plan, self.job, self.told)
        yield from filter(None, [container_warning(self.job)])


def _summary(metric: str, unit: str, samples: int, mean: float, most: float) -> MetricSummary:
    least = mean if samples == 1 or mean == most else None
    return MetricSummary(
        metric=metric, unit=unit, samples=samples, minimum=least, mean=mean, maximum=most
    )


def _name(text: str | None) -> str | None:
    return text[:MOST_CHARACTERS_OF_NAME] if text else None
