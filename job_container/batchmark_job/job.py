"""Runs one job: measures every point, and writes the results to one document."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections import deque
from collections.abc import Hashable, Sequence

from batchmark_job.distributed.busy import GpuUtilisation
from batchmark_job.distributed.follow import Follower, decline
from batchmark_job.distributed.node import Greeting, Node, own_address
from batchmark_job.distributed.nodes import Nodes
from batchmark_job.distributed.row import ScalingRow
from batchmark_job.errors import CannotMeasureError, say, warn
from batchmark_job.formatting import count
from batchmark_job.interruption import Interruption
from batchmark_job.machine import nvml, spot_notice
from batchmark_job.machine.conditions import Monitor
from batchmark_job.machine.inventory import Machine
from batchmark_job.machine.telemetry import Telemetry, meters_for
from batchmark_job.measuring import steps
from batchmark_job.measuring.marks import JobMarks
from batchmark_job.measuring.measured_row import Bench, MeasuredRow
from batchmark_job.measuring.processes.workers import (
    SILENCE_SECONDS,
    ForkedWorkers,
    StepError,
    WorkerSource,
)
from batchmark_job.measuring.rows import Row
from batchmark_job.progress import describe, describe_first_turn, has_figures, time_left, warnings
from batchmark_job.recorder import Recorder
from batchmark_job.result.document import Ceiling, Device
from batchmark_job.settings import JobSettings
from batchmark_job.sharing.meeting import ReplicaRendezvous, lend_workers
from batchmark_job.sharing.row import SharingRow
from batchmark_job.suites import Point
from batchmark_job.workloads.own.files import find_workload

# torch loads it with the first optimizer or backward pass, for most of a second.
FOR_TRAINING = ("torch._dynamo",)
SEED = 20261101
SILENCE_SHARE = 60  # times max_seconds: the longest call worth waiting for


def run_job(
    settings: JobSettings,
    interruption: Interruption | None = None,
    workers: ForkedWorkers | None = None,
) -> int:
    """Measure everything, write the document, and return the exit code.

    A follower node, or a replica other than the first, only serves the container that measures.

    Raises:
        JobError: a workload or the device is missing, or the document could not be written.
        Exception: an error outside the rows; the document holds everything measured up to then.
    """
    silence = max(SILENCE_SECONDS, SILENCE_SHARE * settings.limits.max_seconds)
    ours = [point.workload for point in settings.points if point.scaling is None]
    training = any(find_workload(name).needs_gradients for name in ours)
    workers = workers or ForkedWorkers(silence, FOR_TRAINING if training else ())
    try:
        if settings.node is not None:
            return _run_on_nodes(settings, settings.node, workers, interruption)
        if (place := settings.place) and place.number > 0:
            lend_workers(place, workers)
            return 0
        with _rendezvous(settings, workers) as elsewhere:
            rows = _rows(settings.points, elsewhere)
            return _run(settings, rows, workers, interruption)
    finally:
        workers.close()


def _run_on_nodes(
    settings: JobSettings, node: Node, workers: ForkedWorkers, interruption: Interruption | None
) -> int:
    """Measure if this is the main node; otherwise follow the main node."""
    devices = settings.points[0].named_parameters["devices"]
    if node.is_main:
        with Nodes(node, address=own_address() or node.main_address) as nodes:
            rows = [
                ScalingRow.of(point.scaling, point.dtype, nodes)
                for point in settings.points
                if point.scaling
            ]
            return _run(settings, rows, workers, interruption, nodes)
    try:
        machine = _look_around(settings, workers, JobMarks())
    except CannotMeasureError as error:
        decline(node, str(error))
        raise
    main = str(node.main_address)
    greeting = Greeting.of(node.index, own_address(main) or main, machine)
    follower = Follower(node, greeting, GpuUtilisation.of(machine.device.value, devices))
    if interruption is not None:
        interruption.on_stop = follower.stop
    follower.follow()
    return 0


def _rendezvous(
    settings: JobSettings, workers: ForkedWorkers
) -> contextlib.AbstractContextManager[WorkerSource | None]:
    """Return a context manager for connecting to replicas in other containers, if there are any.

    Enter it early, because those replicas are already waiting for this one.
    """
    sharing = settings.points[0].sharing
    if settings.place is None or sharing is None:
        return contextlib.nullcontext()
    return contextlib.closing(ReplicaRendezvous(settings.place, sharing.replicas, workers))


def _rows(points: Sequence[Point], elsewhere: WorkerSource | None) -> list[MeasuredRow]:
    """Return a row for each point; sharing rows of the same task choose its implementation once."""
    tasks: dict[tuple[Hashable, ...], Row] = {}
    rows: list[MeasuredRow] = []
    for point in points:
        workload = find_workload(point.workload)
        row = workload, point.named_parameters, point.dtype
        if point.sharing is None:
            rows.append(Row(*row))
            continue
        key = point.workload, tuple(point.parameters.items()), point.dtype
        task = tasks.setdefault(key, Row(workload, point.parameters, point.dtype))
        rows.append(SharingRow(*row, task=task, point=point.sharing, elsewhere=elsewhere))
    return rows


def _run(
    settings: JobSettings,
    rows: Sequence[MeasuredRow],
    workers: ForkedWorkers,
    interruption: Interruption | None,
    nodes: Nodes | None = None,
) -> int:
    marks = JobMarks()
    machine = _look_around(settings, workers, marks)
    gpu = _find_gpu(machine)
    if nodes:
        nodes.gather(machine, settings.points[0].named_parameters["devices"])
    meters = meters_for(machine.threads, nodes.usage if nodes else workers.usage, gpu)
    telemetry = Telemetry(meters, settings.metrics_namespace, settings.target)
    recorder = Recorder(settings, machine, marks, telemetry, rows)
    monitor = Monitor(machine.device.value, gpu)

    def stop(received: signal.Signals) -> int:
        workers.close()  # workers would compete for the CPU with writing the document
        if nodes:
            nodes.close(f"it received {received.name}")
        exit_code = recorder.interrupt(received)
        telemetry.publish()
        return exit_code

    if interruption is not None:
        interruption.on_stop = stop
        spot_notice.watch(interruption.host_ends_soon)
    _announce(recorder, machine)
    telemetry.start()
    monitor.start()
    bench = Bench.of(machine, settings.limits, workers, monitor=monitor, marks=marks)
    try:
        try:
            _measure_all(rows, bench)
            monitor.stop()
            if settings.ceilings and any(_has_figures(row) for row in rows):
                recorder.ceilings = _ceilings(workers, machine, settings)
            telemetry.stop()
        except BaseException as error:
            recorder.abandon(error)
            raise
        return recorder.close()
    finally:
        telemetry.publish()


def _measure_all(rows: Sequence[MeasuredRow], bench: Bench) -> None:
    """In each round, start one row and give every started row a turn, in a new random order.

    This spreads a row's turns over time, so that changes in the machine widen its interval.
    """
    finished = 0
    began = time.monotonic()
    draw = random.Random(SEED)
    to_begin, measuring = deque(rows), list[MeasuredRow]()
    while to_begin or measuring:
        if to_begin:
            measuring.append(to_begin.popleft())
        for row in measuring:
            begins = not row.begun
            row.take_turn(bench)
            measured = row.measurement
            if measured is None and not begins:
                continue
            finished += measured is not None
            text = describe(measured) if measured else describe_first_turn(row)
            left = time_left(rows, time.monotonic() - began)
            say(f"[{finished}/{len(rows)}] {text}{left}")
            for warning in warnings(measured) if measured else ():
                say(f"    {warning}")
        measuring = [row for row in measuring if row.measurement is None]
        draw.shuffle(measuring)


def _has_figures(row: MeasuredRow) -> bool:
    """Return whether the row is a single task with figures to compare with the ceilings."""
    alone = isinstance(row, Row) and not isinstance(row, SharingRow)
    return alone and row.measurement is not None and has_figures(row.measurement)


def _ceilings(
    workers: ForkedWorkers, machine: Machine, settings: JobSettings
) -> tuple[Ceiling, ...]:
    """Measure the machine's peak rates, each for at most twice a row's `max_seconds`."""
    asked = settings.dtypes, 2 * settings.limits.max_seconds
    try:
        found: tuple[Ceiling, ...] = workers.run(
            steps.ceilings, machine.device, machine.threads, *asked
        )
    except StepError as error:
        warn(f"peak rates not measured: {error}")
        return ()
    for ceiling in found:
        unit = f"{ceiling.dtype} flop/s" if ceiling.kind == "compute" else "bytes/s"
        say(f"ceiling: {ceiling.rate_per_second:.3g} {unit} ({ceiling.description})")
    return found


def _look_around(settings: JobSettings, workers: ForkedWorkers, marks: JobMarks) -> Machine:
    asked = settings.requested_device, settings.threads, settings.allow_cpu_fallback
    try:
        machine: Machine = workers.run(steps.look_around, *asked, hear=marks.hear)
    except StepError as error:
        raise CannotMeasureError(f"cannot measure: {error}") from error
    return machine


def _find_gpu(machine: Machine) -> nvml.Gpu | None:
    """Find the GPU through NVML; without NVML, the job has no GPU metrics or conditions."""
    if machine.gpu_uuid is not None:
        try:
            return nvml.find_gpu(machine.gpu_uuid)
        except Exception as error:
            warn(f"no GPU metrics: {type(error).__name__}: {error}")
    return None


def _announce(recorder: Recorder, machine: Machine) -> None:
    settings, environment = recorder.settings, machine.environment
    on_gpu = machine.device is Device.CUDA
    where = environment.gpu_model if on_gpu else environment.cpu_model
    say(
        f"batchmark-job: suite {settings.suite}, {count(len(settings.points), 'row')}, "
        f"{' '.join(settings.dtypes)}, "
        f"on {machine.device} ({where}, {count(machine.threads, 'thread')}), "
        f"to {settings.output}"
    )
