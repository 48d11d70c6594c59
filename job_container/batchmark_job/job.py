"""One job: measure every point, keep what was measured, write one document."""

from __future__ import annotations

import gc
import signal
from collections.abc import Sequence

import torch

from batchmark_job.errors import CannotMeasureError, say
from batchmark_job.interruption import Interruption
from batchmark_job.machine import cuda, fingerprint
from batchmark_job.machine.conditions import Monitor
from batchmark_job.machine.telemetry import Telemetry, meters_for
from batchmark_job.machine.threads import set_threads
from batchmark_job.measuring.ceilings import measure_ceilings
from batchmark_job.measuring.marks import JobMarks
from batchmark_job.measuring.rows import Bench, Row, bench_for, measure
from batchmark_job.progress import describe, warnings
from batchmark_job.recorder import Recorder
from batchmark_job.result import Ceiling, Device
from batchmark_job.settings import JobSettings
from batchmark_job.workloads.user_files import find_workload


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
    marks = JobMarks()
    marks.mark("imported")
    device = _choose_device(settings)
    marks.mark("device_ready")
    threads = _set_threads(settings.threads)
    telemetry = Telemetry(meters_for(device, threads), settings.metrics_namespace, settings.target)
    machine = fingerprint.describe(threads, device)
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
    gc.freeze()  # otherwise each collection before sampling would walk through all of torch
    bench = bench_for(device.value, settings.limits, threads=threads, monitor=monitor, marks=marks)
    try:
        try:
            _measure_all(rows, bench, recorder)
            monitor.stop()
            if settings.ceilings:
                set_threads(threads)
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


def _ceilings(device: Device, dtypes: tuple[str, ...]) -> tuple[Ceiling, ...]:
    """The machine's own best rates; before the rows they would warm up the rows' libraries."""
    found = measure_ceilings(device.value, dtypes)
    for ceiling in found:
        unit = f"{ceiling.dtype} flop/s" if ceiling.kind == "compute" else "bytes/s"
        say(f"ceiling: {ceiling.rate_per_second:.3g} {unit} ({ceiling.description})")
    return found


def _choose_device(settings: JobSettings) -> Device:
    requested = settings.requested_device
    if requested == "cpu" or (requested == "auto" and not torch.cuda.is_available()):
        return Device.CPU
    obstacle = cuda.find_obstacle()
    if obstacle is None:
        cuda.start()
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
    """Give all math libraries the same number of threads, at most as many as usable."""
    usable = fingerprint.usable_threads()
    threads = min(requested or usable, usable)
    if requested > usable:
        say(f"batchmark_job: {requested} threads asked for, only {usable} usable: using those")
    set_threads(threads)
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
