"""One job: measure every point, keep what was measured, write one document."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from batchmark_job import cuda_start, environment
from batchmark_job.ceilings import measure_ceilings
from batchmark_job.conditions import Monitor
from batchmark_job.exceptions import CannotMeasureError, InputError, OutputError, one_line
from batchmark_job.marks import JobMarks
from batchmark_job.measure import Row, bench_for, measure
from batchmark_job.output import FileOutput, document_name
from batchmark_job.own_workloads import find_workload
from batchmark_job.result import (
    Ceiling,
    Device,
    Environment,
    Implementation,
    Measurement,
    MeasurementStatus,
    ResultDocument,
)
from batchmark_job.telemetry import Telemetry, meters_for
from batchmark_job.threads import give_threads

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator, Sequence

    from batchmark_job.interruption import Interruption
    from batchmark_job.measure import Bench
    from batchmark_job.output import Output
    from batchmark_job.suites import Limits, Point

RequestedDevice = Literal["auto", "cpu", "cuda"]

EXIT_ROW_FAILED = 1
NOTEWORTHY_SHARE = 0.1  # of the samples; the document names every one
STOPPED_BY = {
    "precise": "precise enough",
    "max_samples": "as many as allowed",
    "max_seconds": "time is up",
}


def say(text: str) -> None:
    """One line for whoever follows the log."""
    print(text, flush=True)


@dataclass(frozen=True)
class JobSettings:
    """What to measure, on what, and where the document goes."""

    run_id: str
    job_id: str
    job_attempt: int
    target: str
    suite: str
    points: tuple[Point, ...]
    limits: Limits
    requested_device: RequestedDevice
    threads: int
    allow_cpu_fallback: bool
    output: Output
    metrics_namespace: str | None = None
    ceilings: bool = True

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Those of the points, each once."""
        return tuple(dict.fromkeys(point.dtype for point in self.points))


def job_from_batch() -> tuple[str, int]:
    """Job id and attempt as AWS Batch tells them; by hand "local" and 1."""
    job_id = os.environ.get("AWS_BATCH_JOB_ID") or "local"
    attempt = os.environ.get("AWS_BATCH_JOB_ATTEMPT") or "1"
    if not attempt.isdecimal() or int(attempt) < 1:
        raise InputError(f"AWS_BATCH_JOB_ATTEMPT is {attempt!r}; it must be a number from 1")
    return job_id, int(attempt)


@dataclass
class Recorder:
    """Keeps the finished rows and writes the document exactly once, whoever ends the job."""

    settings: JobSettings
    device: Device
    environment: Environment
    marks: JobMarks
    telemetry: Telemetry
    ceilings: tuple[Ceiling, ...] = ()
    measurements: list[Measurement] = field(default_factory=list)
    current: Row | None = None
    _rows: threading.Lock = field(default_factory=threading.Lock)
    _closing: threading.Lock = field(default_factory=threading.Lock)
    _written: threading.Event = field(default_factory=threading.Event)

    def add(self, measurement: Measurement) -> None:
        with self._rows:
            self.current = None
            self.measurements.append(measurement)

    def close(self) -> int:
        """Write the complete document; returns the exit code."""
        if not self._closing.acquire(blocking=False):
            threading.Event().wait()  # an interruption is writing and ends the process
        failed = sum(row.status is MeasurementStatus.FAILED for row in self.measurements)
        try:
            self._write(self._document("complete", self.measurements), hurried=False)
        finally:
            self._written.set()
        if failed:
            say(f"batchmark_job: {failed} of {len(self.measurements)} rows failed")
        return EXIT_ROW_FAILED if failed else 0

    def interrupt(self, received: signal.Signals) -> int:
        """Write what there is, with the row in progress; returns the exit code."""
        if not self._closing.acquire(blocking=False):
            say(f"batchmark_job: {received.name} while the complete document is being written")
            self._written.wait()
            return 128 + received
        self._write_partial(received.name, MeasurementStatus.INTERRUPTED, hurried=True)
        return 128 + received

    def abandon(self, error: BaseException) -> None:
        """Write what there is after an error that belongs to no row; the row in progress failed."""
        if not self._closing.acquire(blocking=False):
            threading.Event().wait()  # an interruption is writing and ends the process
        try:
            self._write_partial(one_line(error), MeasurementStatus.FAILED, hurried=False)
        finally:
            self._written.set()

    def _write_partial(self, cause: str, status: MeasurementStatus, *, hurried: bool) -> None:
        with self._rows:
            rows, row = list(self.measurements), self.current
        if row is not None:
            reason = f"{cause} after {len(row.samples)} of its samples"
            rows.append(row.give_up(status, reason))
        say(f"batchmark_job: {cause}: writing the {len(rows)} rows there are")
        try:
            self._write(self._document("interrupted", rows), hurried=hurried)
        except OutputError as error:
            say(f"batchmark_job: {error}")

    def _document(
        self, status: Literal["complete", "interrupted"], measurements: list[Measurement]
    ) -> ResultDocument:
        started_at = self.marks.process_started_at
        finished_at = datetime.now(UTC)
        return ResultDocument(
            run_id=self.settings.run_id,
            job_id=self.settings.job_id,
            job_attempt=self.settings.job_attempt,
            target=self.settings.target,
            suite=self.settings.suite,
            requested_device=self.settings.requested_device,
            actual_device=self.device,
            status=status,
            started_at=started_at,
            finished_at=finished_at,
            total_seconds=(finished_at - started_at).total_seconds(),
            environment=self.environment,
            measurements=tuple(measurements),
            marks=self.marks.document(),
            ceilings=self.ceilings,
            telemetry=self.telemetry.summary(),
        )

    def _write(self, document: ResultDocument, *, hurried: bool) -> None:
        """Write to the output or, where that fails, to a local file and the log."""
        text = document.to_json() + "\n"
        try:
            self.settings.output.write(text, hurried=hurried)
        except OutputError as error:
            saved = _save_elsewhere(document, text)
            raise OutputError(f"{error}; the document is {saved}") from error
        say(f"batchmark_job: wrote {self.settings.output}")


def _save_elsewhere(document: ResultDocument, text: str) -> str:
    say("----- result document begins -----")
    say(text.rstrip())
    say("----- result document ends -----")
    name = f"batchmark-{document_name(document.job_id, document.job_attempt)}"
    spare = FileOutput(Path(tempfile.gettempdir()) / name)
    try:
        spare.write(text)
    except OutputError:
        return "above in this log"
    return f"above in this log and in {spare}"


def run_job(settings: JobSettings, interruption: Interruption | None = None) -> int:
    """Measure everything and write the document; returns the exit code.

    Raises:
        JobError: a workload or the device is missing, or the document could not be written.
        Exception: an error outside of the rows; the document holds what was measured by then.
    """
    rows = [
        Row(find_workload(point.workload), point.parameters, point.dtype)
        for point in settings.points
    ]
    settings.output.check()
    marks = JobMarks()
    _import_libraries()
    marks.mark("imported")
    device = _choose_device(settings)
    marks.mark("device_ready")
    threads = _set_threads(settings.threads)
    telemetry = Telemetry(meters_for(device, threads), settings.metrics_namespace, settings.target)
    machine = environment.describe(threads, device)
    recorder = Recorder(settings, device, machine, marks, telemetry)
    monitor = Monitor(device.value)

    def stop(received: signal.Signals) -> int:
        exit_code = recorder.interrupt(received)
        telemetry.publish()
        return exit_code

    if interruption is not None:
        interruption.on_stop = stop
    _announce(recorder)
    telemetry.start()
    monitor.start()
    gc.freeze()  # else each collection before sampling would walk through all of torch
    bench = bench_for(device.value, settings.limits, threads=threads, monitor=monitor, marks=marks)
    try:
        try:
            _measure_all(rows, bench, recorder)
            monitor.stop()
            if settings.ceilings:
                give_threads(threads)
                recorder.ceilings = _ceilings(device, settings.dtypes)
            telemetry.stop()
        except BaseException as error:
            recorder.abandon(error)
            raise
        return recorder.close()
    finally:
        telemetry.publish()


def _measure_all(rows: Sequence[Row], bench: Bench, recorder: Recorder) -> None:
    for index, row in enumerate(rows, start=1):
        recorder.current = row
        measurement = measure(row, bench)
        recorder.add(measurement)
        say(f"[{index}/{len(rows)}] {describe(measurement)}")
        for warning in warnings(measurement):
            say(f"    {warning}")


def _import_libraries() -> None:
    """Everything that takes long to load, so that no row's cold call waits for it."""
    import cv2  # noqa: F401
    import torch  # noqa: F401


def _ceilings(device: Device, dtypes: tuple[str, ...]) -> tuple[Ceiling, ...]:
    """The machine's own best rates, after the rows: before, they would warm their libraries up."""
    found = measure_ceilings(device.value, dtypes)
    for ceiling in found:
        unit = f"{ceiling.dtype} flop/s" if ceiling.kind == "compute" else "bytes/s"
        say(f"ceiling: {ceiling.rate_per_second:.3g} {unit} ({ceiling.description})")
    return found


def _choose_device(settings: JobSettings) -> Device:
    import torch

    requested = settings.requested_device
    if requested == "cpu" or (requested == "auto" and not torch.cuda.is_available()):
        return Device.CPU
    obstacle = cuda_start.find_obstacle()
    if obstacle is None:
        cuda_start.start()
        return Device.CUDA
    if not settings.allow_cpu_fallback:
        raise CannotMeasureError(
            f"cannot measure: --device cuda, but {obstacle.what}; {obstacle.remedy}; "
            "or give --allow-cpu-fallback to measure on the CPU instead"
        )
    say(
        f"batchmark_job: NOT A GPU MEASUREMENT: cuda was asked for, but {obstacle.what}; "
        "measuring on the CPU (--allow-cpu-fallback)"
    )
    return Device.CPU


def _set_threads(requested: int) -> int:
    """Give all math libraries the same number of threads, at most what the process may use."""
    usable = environment.usable_threads()
    threads = min(requested or usable, usable)
    if requested > usable:
        say(f"batchmark_job: {requested} threads asked for, only {usable} usable: using those")
    give_threads(threads)
    return threads


def _announce(recorder: Recorder) -> None:
    settings, machine = recorder.settings, recorder.environment
    where = machine.gpu_model if recorder.device is Device.CUDA else machine.cpu_model
    say(
        f"batchmark_job: suite {settings.suite}, {len(settings.points)} rows, "
        f"{' '.join(settings.dtypes)}, "
        f"on {recorder.device} ({where}, {machine.compute_threads} threads), "
        f"to {settings.output}"
    )


def describe(measurement: Measurement) -> str:
    """A row as one line of progress."""
    parameters = " ".join(f"{name}={value}" for name, value in measurement.parameters.items())
    row = f"{measurement.workload} {parameters} {measurement.dtype}:"
    if measurement.status is not MeasurementStatus.MEASURED:
        return f"{row} {measurement.status.upper()}, {measurement.reason}"
    samples = measurement.samples_seconds
    low, median, high = np.quantile(samples, [0.25, 0.5, 0.75])
    stopping, by = measurement.stopping, measurement.implementation
    rate = f" ({measurement.items / median:.4g} images/s)" if measurement.items else ""
    return (
        f"{row} median {_duration(median)}{rate}, "
        f"middle half {_duration(low)} to {_duration(high)}, "
        f"{len(samples)} samples ({STOPPED_BY[stopping.criterion] if stopping else 'ended'}), "
        f"cold {_duration(measurement.cold_seconds or 0.0)}, {describe_rival(by) if by else ''}"
    )


def describe_rival(implementation: Implementation) -> str:
    threads = implementation.threads
    return implementation.name + (f" on {threads} threads" if threads else "")


def warnings(measurement: Measurement) -> Iterator[str]:
    """What a reader of the figures should know about a row, a line each."""
    for trial in measurement.trials:
        if trial.outcome in {"wrong", "failed"}:
            yield f"{describe_rival(trial.implementation)} is out, {trial.outcome}: {trial.reason}"
    if measurement.status is MeasurementStatus.MEASURED and measurement.reason:
        yield measurement.reason
    samples = len(measurement.samples_seconds)
    for what, count in (
        ("taken while the device was slowed down", len(measurement.throttled_samples)),
        ("far from the median", len(measurement.outlier_samples)),
    ):
        if count > NOTEWORTHY_SHARE * samples:
            yield f"{count} of {samples} samples {what}; flagged, not removed"
    if measurement.multimodal:
        yield "the samples gather around more than one value"


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.4g} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.4g} ms"
    return f"{seconds * 1e6:.4g} µs"
