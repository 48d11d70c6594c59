"""How one row is measured: rivals' trial, warm-up, warm samples, transfers, correctness."""

from __future__ import annotations

import contextlib
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from batchmark_job import environment, memory, trial
from batchmark_job import threads as thread_counts
from batchmark_job.conditions import Monitor
from batchmark_job.exceptions import first_line
from batchmark_job.marks import JobMarks
from batchmark_job.result import Measurement, MeasurementStatus, Phases
from batchmark_job.sample_statistics import multimodal, outliers
from batchmark_job.sampling import (
    MonotonicTimer,
    no_garbage_collection,
    sample,
    timer_for,
    unsettled,
    warm_up,
)
from batchmark_job.suites import PATIENCE
from batchmark_job.trial import Problem
from batchmark_job.workloads import torch_support

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import Tensor

    from batchmark_job.result import Correctness
    from batchmark_job.sampling import Sampled, Timer
    from batchmark_job.suites import Limits
    from batchmark_job.trial import Contestant
    from batchmark_job.workloads.base import Workload

TRANSFER_SAMPLES = 5
RESTARTS = 2
LAST = 1  # draws other parts of an output than the first check of the same inputs
RESTART_SHARE = 3.0  # of max_seconds, the most that sampling may have taken to start anew
# NVML's counter moves every 20 to 100 ms: over a second that is at most a tenth.
ENERGY_SECONDS = 1.0


@dataclass
class Row:
    """One row being measured; readable from another thread at any moment."""

    workload: Workload
    parameters: Mapping[str, int]
    dtype: str
    samples: list[float] = field(default_factory=list)
    found: dict[str, Any] = field(default_factory=dict)  # Measurement's other fields, as known

    def finish(self, status: MeasurementStatus, reason: str | None = None) -> Measurement:
        """The row as measured.

        Raises:
            Exception: the workload's formulas fail, or something found breaks the schema.
        """
        return self._named(
            status,
            reason,
            samples_seconds=tuple(self.samples),
            flops=self.workload.flops(self.parameters),
            items=self.workload.items(self.parameters),
            bytes_moved=self.workload.bytes_moved(self.parameters, self.dtype),
            **self.found,
        )

    def give_up(self, status: MeasurementStatus, reason: str) -> Measurement:
        """The row as far as it came, or its name and the reason where `finish` itself fails."""
        try:
            return self.finish(status, reason)
        except Exception:
            return self._named(status, reason)

    def _named(self, status: MeasurementStatus, reason: str | None, **figures: Any) -> Measurement:
        return Measurement(
            workload=self.workload.name,
            parameters=dict(self.parameters),
            dtype=self.dtype,
            status=status,
            reason=reason,
            **figures,
        )


@dataclass(frozen=True)
class Bench:
    """What rows are measured with. `threads` are those of the CPU's math libraries."""

    device: str
    limits: Limits
    threads: int
    monitor: Monitor
    marks: JobMarks
    cache_bytes: int | None


def bench_for(
    device: str,
    limits: Limits,
    *,
    threads: int | None = None,
    monitor: Monitor | None = None,
    marks: JobMarks | None = None,
) -> Bench:
    """What is not given is: all usable threads, a monitor that is not started, marks of its own."""
    return Bench(
        device,
        limits,
        threads or environment.usable_threads(),
        monitor or Monitor(device),
        marks or JobMarks(),
        environment.last_level_cache_bytes(device),
    )


def measure(row: Row, bench: Bench) -> Measurement:
    """Measure a row; what goes wrong becomes its status, never an exception."""
    if lost := _lost_context(bench.device):
        return row.give_up(MeasurementStatus.FAILED, lost)
    try:
        with as_measured(row.workload, row.dtype):
            return _measure(row, bench)
    except (Exception, SystemExit) as error:  # own code may call sys.exit()
        skipped = trial.is_out_of_memory(error)
        status = MeasurementStatus.SKIPPED if skipped else MeasurementStatus.FAILED
        return row.give_up(status, trial.describe_error(error))
    finally:
        memory.release(bench.device)


def _lost_context(device: str) -> str | None:
    """Why no row can be measured any more: after an illegal access every call of CUDA fails."""
    if device == "cuda":
        import torch

        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            return f"CUDA context lost in an earlier row: {first_line(error)}"
    return None


@contextlib.contextmanager
def as_measured(workload: Workload, dtype: str) -> Iterator[None]:
    """The state that malloc and torch have while a workload is measured."""
    import torch

    memory.keep_freed_memory()
    with torch.inference_mode(not workload.needs_gradients), torch_support.precision(dtype):
        yield


class Choice(NamedTuple):
    """What a row's trial came to; `chosen` is None where no rival is right, or none can try."""

    chosen: Contestant | None
    rivals: Sequence[Contestant]
    input_sets: int


def choose_rival(problem: Problem, bench: Bench) -> Choice:
    """Hold the trial that comes before a measurement; without competitors no inputs are made."""
    rivals = trial.contestants(problem, thread_counts.worth_trying(bench.threads))
    if not any(rival.competes for rival in rivals):
        return Choice(None, rivals, 0)
    sets = trial.input_sets(problem, rivals, bench.cache_bytes)
    timer = timer_for(bench.device)
    seconds = trial.TRIAL_SHARE * bench.limits.max_seconds
    chosen = trial.hold_trial(problem, rivals, sets, timer, seconds, bench.marks.mark)
    bench.marks.mark("trial_ended")
    return Choice(chosen, rivals, sets)


def _measure(row: Row, bench: Bench) -> Measurement:
    problem = Problem(row.workload, row.parameters, row.dtype, bench.device)
    chosen, rivals, sets = choose_rival(problem, bench)
    if chosen is None:
        return _without_choice(row, rivals, bench.device)
    timer = timer_for(bench.device)
    row.found.update(
        trials=tuple(rival.trial() for rival in rivals),
        implementation=chosen.implementation(),
        cold_seconds=chosen.cold_seconds,
        correctness=chosen.correctness,
        timer=timer.name,
        input_sets=sets,
        caches_filled=sets * problem.input_bytes() / bench.cache_bytes
        if bench.cache_bytes
        else None,
    )
    return _measure_chosen(row, bench, problem, chosen, timer)


def _without_choice(row: Row, rivals: Sequence[Contestant], device: str) -> Measurement:
    """What to call a row that nobody computes: too large or unsupported, wrong, or broken."""
    row.found.update(trials=tuple(rival.trial() for rival in rivals))
    if not rivals:
        reason = f"{row.workload.name} has no implementation for {device}"
        return row.finish(MeasurementStatus.SKIPPED, reason)
    wrong = [rival for rival in rivals if rival.outcome == "wrong"]
    broken = [rival for rival in rivals if rival.outcome == "failed" and not rival.out_of_memory]
    too_large = [rival for rival in rivals if rival.out_of_memory]
    blamed = wrong or broken or too_large or rivals
    row.found.update(correctness=blamed[0].correctness)
    reasons = "; ".join(dict.fromkeys(str(rival.reason) for rival in blamed))
    if wrong:
        return row.finish(MeasurementStatus.FAILED, f"wrong result: {reasons}")
    status = MeasurementStatus.FAILED if broken else MeasurementStatus.SKIPPED
    return row.finish(status, reasons)


def _measure_chosen(
    row: Row, bench: Bench, problem: Problem, chosen: Contestant, timer: Timer
) -> Measurement:
    assert chosen.rotation is not None  # noqa: S101
    peak = memory.PeakMemory(bench.device)
    with no_garbage_collection():
        warmup_calls = warm_up(chosen.rotation, timer, bench.limits)
        bench.marks.mark("steady")
        sampled = _sample_until_settled(row, bench, chosen, timer, warmup_calls)
    row.found.update(peak_memory_bytes=peak.read())
    _judge_samples(row, bench, sampled, timer)
    transfers = _transfers(chosen, sampled.output) if bench.device == "cuda" else {}
    compute = statistics.median(row.samples)
    row.found.update(phases=Phases(compute_seconds=compute, **transfers))
    if row.workload.repeatable and chosen.changed_inputs():
        return row.finish(MeasurementStatus.FAILED, trial.CHANGES_INPUTS)
    if wrong := _check_last(row, problem, chosen, sampled.output):
        return row.finish(MeasurementStatus.FAILED, f"wrong result after many calls: {wrong}")
    if reason := unsettled(row.samples, chosen.trial_seconds):
        return row.finish(MeasurementStatus.UNSETTLED, reason)
    if len(row.samples) < bench.limits.minimum_samples:
        return row.finish(
            MeasurementStatus.MEASURED,
            f"only {len(row.samples)} samples: {bench.limits.minimum_samples} would have taken "
            f"more than {PATIENCE * bench.limits.max_seconds:g} s",
        )
    return row.finish(MeasurementStatus.MEASURED)


def _sample_until_settled(
    row: Row, bench: Bench, chosen: Contestant, timer: Timer, warmup_calls: int
) -> Sampled:
    """Sample; samples that are unsettled belong to the warm-up, a few times, while time is left."""
    assert chosen.rotation is not None  # noqa: S101
    began = time.perf_counter()
    for restarts_left in reversed(range(RESTARTS + 1)):
        row.found.update(warmup_calls=warmup_calls, conditions_before=bench.monitor.now())
        energy_before = bench.monitor.energy_joules()
        sampled = sample(chosen.rotation, timer, bench.limits, row.samples)
        energy_after = bench.monitor.energy_joules()
        late = time.perf_counter() - began > RESTART_SHARE * bench.limits.max_seconds
        if late or not restarts_left or not unsettled(row.samples, chosen.trial_seconds):
            break
        warmup_calls += sampled.calls
        row.samples.clear()
    after = bench.monitor.now()  # first, to close a span shorter than the monitor's period
    row.found.update(
        stopping=sampled.stopping,
        unrecorded_calls=sampled.calls - len(row.samples),
        conditions_during=bench.monitor.during(sampled.starts[0], sampled.end),
        conditions_after=after,
    )
    if energy_before is not None and energy_after is not None and sampled.seconds >= ENERGY_SECONDS:
        row.found.update(energy_joules=(energy_after - energy_before) / sampled.calls)
    return sampled


def _judge_samples(row: Row, bench: Bench, sampled: Sampled, timer: Timer) -> None:
    ends = [*sampled.starts[1:], sampled.end]
    spans = enumerate(zip(sampled.starts, ends, strict=True))
    row.found.update(
        throttled_samples=tuple(i for i, span in spans if bench.monitor.throttled(*span)),
        outlier_samples=outliers(row.samples),
        multimodal=multimodal(row.samples, timer.resolution_seconds),
    )


def _check_last(row: Row, problem: Problem, chosen: Contestant, output: Tensor) -> str | None:
    """Check the last output like the first; only its being finite where calls build on another."""
    import torch

    assert chosen.rotation is not None  # noqa: S101
    if not row.workload.repeatable:
        finite = bool(torch.isfinite(output).all())
        return None if finite else "it is not finite"
    index = chosen.rotation.last
    inputs = chosen.rival.arrange(problem.inputs(index)) if index else chosen.host_inputs
    correctness, wrong = problem.check(inputs, output, index, LAST)
    first: Correctness = row.found["correctness"]
    if correctness is None or correctness.relative_error > first.relative_error:
        row.found.update(correctness=correctness)
    return wrong


def _transfers(chosen: Contestant, output: Tensor) -> dict[str, float]:
    """Medians of allocation, and of copies between page-locked host memory and the device.

    In seconds; without those for which there is no memory.
    """
    import torch

    timer = MonotonicTimer("cuda")

    def allocate() -> list[Tensor]:
        return [torch.empty_like(tensor) for tensor in chosen.device_inputs]

    def to_device() -> None:
        for device, host in zip(chosen.device_inputs, pinned, strict=True):
            device.copy_(host, non_blocking=True)

    def to_host() -> None:
        target.copy_(output, non_blocking=True)

    def median(step: Callable[[], Any], *, before: Callable[[], None] = lambda: None) -> float:
        taken = []
        for _ in range(1 + TRANSFER_SAMPLES):
            before()
            taken.append(timer.seconds(step)[0])
        return statistics.median(taken[1:])

    found = {}
    with torch.no_grad(), contextlib.suppress(RuntimeError):  # inputs may want gradients
        found["allocate_seconds"] = median(allocate, before=memory.release_cuda_cache)
        pinned = tuple(tensor.pin_memory() for tensor in chosen.host_inputs)
        target = torch.empty_like(output, device="cpu").pin_memory()
        found["host_to_device_seconds"] = median(to_device)
        found["device_to_host_seconds"] = median(to_host)
    return found
