"""How one row is measured: trial, warm-up, warm samples, transfers, correctness."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from batchmark_job.errors import first_line
from batchmark_job.machine import fingerprint, malloc, memory
from batchmark_job.machine.conditions import Monitor
from batchmark_job.machine.threads import thread_counts_to_try
from batchmark_job.measuring.candidate import CHANGES_INPUTS, Candidate
from batchmark_job.measuring.implementation_choice import (
    TRIAL_SHARE,
    candidates,
    choose_fastest,
    input_sets,
)
from batchmark_job.measuring.limits import PATIENCE, RowLimits
from batchmark_job.measuring.marks import JobMarks
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.sample_statistics import multimodal, outliers
from batchmark_job.measuring.sampling import (
    Sampled,
    Timer,
    no_garbage_collection,
    sample,
    timer_for,
    unsettled,
    warm_up,
)
from batchmark_job.measuring.transfers import time_transfers
from batchmark_job.result import (
    MOST_CHARACTERS,
    Correctness,
    Measurement,
    MeasurementStatus,
    Phases,
)
from batchmark_job.workloads.base import Workload
from batchmark_job.workloads.support import torch_calls

FAULTS = ("wrong", "failed", "too large", "refused")  # of candidates, the worst first
RESTARTS = 2
LAST = 1  # makes the last check compare other elements than the first one
RESTART_SHARE = 3.0  # of max_seconds; sampling that took longer does not start anew
# NVML's counter moves every 20 to 100 ms: over a second that is at most a tenth.
ENERGY_SECONDS = 1.0


@dataclass
class Row:
    """One row being measured. Another thread may read it at any time."""

    workload: Workload
    parameters: Mapping[str, int]
    dtype: str
    samples: list[float] = field(default_factory=list)
    found: dict[str, Any] = field(default_factory=dict)  # other fields of Measurement, so far

    def finish(self, status: MeasurementStatus, reason: str | None = None) -> Measurement:
        """The row as measured.

        Raises:
            Exception: a formula of the workload fails, or a value breaks the schema.
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
        """What was measured so far; where `finish` fails, only the row's name and the reason."""
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
            reason=reason and reason[:MOST_CHARACTERS],
            **figures,
        )


@dataclass(frozen=True)
class Bench:
    """What rows are measured with and on. `threads` are those of the CPU's math libraries."""

    device: str
    limits: RowLimits
    threads: int
    monitor: Monitor
    marks: JobMarks
    cache_bytes: int | None


def bench_for(
    device: str,
    limits: RowLimits,
    *,
    threads: int | None = None,
    monitor: Monitor | None = None,
    marks: JobMarks | None = None,
) -> Bench:
    """A bench; by default with all usable threads, an idle monitor and marks of its own."""
    return Bench(
        device,
        limits,
        threads or fingerprint.usable_threads(),
        monitor or Monitor(device),
        marks or JobMarks(),
        fingerprint.last_level_cache_bytes(device),
    )


def measure(row: Row, bench: Bench) -> Measurement:
    """Measure a row. What goes wrong becomes its status, never an exception."""
    if lost := _lost_context(bench.device):
        return row.give_up(MeasurementStatus.FAILED, lost)
    try:
        with measuring_state(row.workload, row.dtype):
            return _measure(row, bench)
    except (Exception, SystemExit) as error:  # a user's code may call sys.exit()
        skipped = memory.is_out_of_memory(error)
        status = MeasurementStatus.SKIPPED if skipped else MeasurementStatus.FAILED
        return row.give_up(status, memory.describe_error(error))
    finally:
        memory.release(bench.device)


def _lost_context(device: str) -> str | None:
    """Why no further row can be measured: after an illegal access every CUDA call fails."""
    if device == "cuda":
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            return f"CUDA context lost in an earlier row: {first_line(error)}"
    return None


@contextlib.contextmanager
def measuring_state(workload: Workload, dtype: str) -> Iterator[None]:
    """Put malloc and torch into the state in which a workload is measured."""
    malloc.keep_freed_memory()
    with torch.inference_mode(not workload.needs_gradients), torch_calls.precision(dtype):
        yield


class Choice(NamedTuple):
    """The outcome of a row's trial; `chosen` is None where no candidate is correct."""

    chosen: Candidate | None
    candidates: Sequence[Candidate]
    input_sets: int


def choose_implementation(problem: Problem, bench: Bench) -> Choice:
    """Hold the trial before a measurement; no inputs are made where every candidate is refused."""
    entered = candidates(problem, thread_counts_to_try(bench.threads))
    if not any(candidate.competes for candidate in entered):
        return Choice(None, entered, 0)
    sets = input_sets(problem, entered, bench.cache_bytes)
    timer = timer_for(bench.device)
    seconds = TRIAL_SHARE * bench.limits.max_seconds
    chosen = choose_fastest(problem, entered, sets, timer, seconds, bench.marks.mark)
    bench.marks.mark("trial_ended")
    return Choice(chosen, entered, sets)


def _measure(row: Row, bench: Bench) -> Measurement:
    problem = Problem(row.workload, row.parameters, row.dtype, bench.device)
    chosen, entered, sets = choose_implementation(problem, bench)
    row.found.update(trials=tuple(candidate.trial_record() for candidate in entered))
    if chosen is None:
        return _without_choice(row, entered, bench.device)
    timer = timer_for(bench.device)
    filled = sets * problem.input_bytes() / bench.cache_bytes if bench.cache_bytes else None
    row.found.update(
        implementation=chosen.implementation_record(),
        cold_seconds=chosen.cold_seconds,
        correctness=chosen.correctness,
        timer=timer.name,
        input_sets=sets,
        caches_filled=filled,
    )
    return _measure_chosen(row, bench, problem, chosen, timer)


def _without_choice(row: Row, entered: Sequence[Candidate], device: str) -> Measurement:
    """Say why nothing computes a row, by the candidates with the worst fault."""
    if not entered:
        reason = f"{row.workload.name} has no implementation for {device}"
        return row.give_up(MeasurementStatus.SKIPPED, reason)
    worst = min(map(_fault, entered), key=FAULTS.index)
    blamed = [candidate for candidate in entered if _fault(candidate) == worst]
    row.found.update(correctness=blamed[0].correctness)
    reasons = "; ".join(dict.fromkeys(str(candidate.reason) for candidate in blamed))
    if worst == "wrong":
        return row.finish(MeasurementStatus.FAILED, f"wrong result: {reasons}")
    status = MeasurementStatus.FAILED if worst == "failed" else MeasurementStatus.SKIPPED
    return row.give_up(status, reasons)


def _fault(candidate: Candidate) -> str:
    return "too large" if candidate.out_of_memory else candidate.outcome


def _measure_chosen(
    row: Row, bench: Bench, problem: Problem, chosen: Candidate, timer: Timer
) -> Measurement:
    peak = memory.PeakMemory(bench.device)
    with no_garbage_collection():
        warmup_calls = warm_up(chosen.calls, timer, bench.limits)
        bench.marks.mark("steady")
        sampled = _sample_until_settled(row, bench, chosen, timer, warmup_calls)
    row.found.update(peak_memory_bytes=peak.read())
    _judge_samples(row, bench, sampled, timer)
    transfers = time_transfers(chosen, sampled.output) if bench.device == "cuda" else {}
    compute = statistics.median(row.samples)
    row.found.update(phases=Phases(compute_seconds=compute, **transfers))
    if row.workload.repeatable and chosen.changed_inputs():
        return row.finish(MeasurementStatus.FAILED, CHANGES_INPUTS)
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
    row: Row, bench: Bench, chosen: Candidate, timer: Timer, warmup_calls: int
) -> Sampled:
    """Sample, and count unsettled samples as warm-up a few times, while there is time left."""
    began = time.perf_counter()
    for restarts_left in reversed(range(RESTARTS + 1)):
        row.found.update(warmup_calls=warmup_calls, conditions_before=bench.monitor.now())
        energy_before = bench.monitor.energy_joules()
        sampled = sample(chosen.calls, timer, bench.limits, row.samples)
        energy_after = bench.monitor.energy_joules()
        late = time.perf_counter() - began > RESTART_SHARE * bench.limits.max_seconds
        if late or not restarts_left or not unsettled(row.samples, chosen.trial_seconds):
            break
        warmup_calls += sampled.calls
        row.samples.clear()
    after = bench.monitor.now()  # first, so that even a short span ends with a reading
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


def _check_last(row: Row, problem: Problem, chosen: Candidate, output: Tensor) -> str | None:
    """What is wrong with the last output, checked like the first one.

    Where each call builds on the one before, only that it is finite.
    """
    if not row.workload.repeatable:
        finite = bool(torch.isfinite(output).all())
        return None if finite else "it is not finite"
    index = chosen.calls.last
    inputs = chosen.implementation.arrange(problem.inputs(index)) if index else chosen.host_inputs
    correctness, wrong = problem.check(inputs, output, index, LAST)
    first: Correctness = row.found["correctness"]
    if correctness is None or correctness.relative_error > first.relative_error:
        row.found.update(correctness=correctness)
    return wrong
