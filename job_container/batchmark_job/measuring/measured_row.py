"""The base class of all rows, from the first turn to the finished measurement."""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from batchmark_job.machine.conditions import Monitor, mean_conditions
from batchmark_job.machine.inventory import Machine
from batchmark_job.measuring.limits import PATIENCE, RowLimits
from batchmark_job.measuring.marks import JobMarks
from batchmark_job.measuring.neighbours import Neighbours
from batchmark_job.measuring.processes.workers import ForkedWorkers, StepError
from batchmark_job.measuring.samples.sample_statistics import multimodal, outliers, stopping
from batchmark_job.result.document import (
    Conditions,
    Correctness,
    Criterion,
    Measurement,
    MeasurementStatus,
    Phases,
)
from batchmark_job.result.values import MOST_CHARACTERS


@dataclass(frozen=True)
class Bench:
    """The device, limits, workers and other resources that a job uses to measure its rows."""

    device: str
    limits: RowLimits
    thread_counts: Sequence[int]  # of the CPU's math libraries, to try
    cache_bytes: int | None
    workers: ForkedWorkers
    monitor: Monitor
    marks: JobMarks
    gpu_uuid: str | None = None
    multiprocessors: int | None = None  # of the GPU
    neighbours: Neighbours = field(default_factory=Neighbours)

    @classmethod
    def of(
        cls,
        machine: Machine,
        limits: RowLimits,
        workers: ForkedWorkers,
        *,
        monitor: Monitor | None = None,
        marks: JobMarks | None = None,
    ) -> Bench:
        """Create a bench for a machine, with an idle monitor and empty marks by default."""
        return cls(
            machine.device.value,
            limits,
            machine.thread_counts,
            machine.environment.last_level_cache_bytes,
            workers,
            monitor or Monitor(machine.device.value),
            marks or JobMarks(),
            machine.gpu_uuid,
            machine.multiprocessors,
        )


class HasName(Protocol):
    """Anything that a row can measure."""

    @property
    def name(self) -> str:
        """The name in the result document."""


class Turn(Protocol):
    """The samples that one process took in one turn."""

    @property
    def seconds(self) -> Sequence[float]:
        """Duration of each sample."""


@dataclass
class MeasuredRow(ABC):
    """A row being measured, which other threads can read at any time.

    It is done once `measurement` is set. Errors are recorded in the measurement and never raised.
    """

    workload: HasName
    parameters: Mapping[str, Any]
    dtype: str
    begun: bool = False
    measurement: Measurement | None = None
    found: dict[str, Any] = field(default_factory=dict)  # fields of Measurement, so far
    unfinished: Sequence[float] = ()  # samples of an unfinished turn
    spent_seconds: float = 0.0  # in turns
    limits: RowLimits = field(default_factory=RowLimits)  # the bench's, possibly with fewer turns
    _during: list[Conditions] = field(default_factory=list)  # by turn

    @property
    @abstractmethod
    def turns(self) -> Sequence[Turn]:
        """The finished turns, grouped by process."""

    @property
    def samples(self) -> list[float]:
        """The samples from all finished turns."""
        return [seconds for turn in self.turns for seconds in turn.seconds]

    @abstractmethod
    def take_turn(self, bench: Bench) -> None:
        """Measure for one turn; the last turn sets `measurement`."""

    @abstractmethod
    def _as_measured(self, status: MeasurementStatus, reason: str | None) -> Measurement:
        """Build the measurement from all figures collected so far."""

    def measure(self, bench: Bench) -> Measurement:
        """Take turns until the row has a measurement, and return it."""
        while self.measurement is None:
            self.take_turn(bench)
        return self.measurement

    def give_up(self, status: MeasurementStatus, reason: str) -> Measurement:
        """End the row with the figures measured so far, or with none if they violate the schema."""
        try:
            self.measurement = self._as_measured(status, reason)
        except Exception:
            self.measurement = self._named(status, reason)
        return self.measurement

    def give_up_after(self, error: StepError) -> None:
        """End the row after a failed step: as skipped if it ran out of memory, else as failed."""
        fault = MeasurementStatus.FAILED
        self.give_up(MeasurementStatus.SKIPPED if error.out_of_memory else fault, str(error))

    def end(self, status: MeasurementStatus, reason: str | None) -> None:
        """End the row with the figures measured so far, or as failed if they violate the schema."""
        try:
            self.measurement = self._as_measured(status, reason)
        except Exception as error:  # a formula of the workload breaks the schema
            self.give_up(MeasurementStatus.FAILED, f"{type(error).__name__}: {error}")

    def interrupt(self, cause: str, status: MeasurementStatus) -> Measurement:
        """End the row early; with enough samples, its finished turns become its measurement."""
        if self.measurement is not None:
            return self.measurement
        samples = len(self.samples)
        if samples >= RowLimits.minimum_samples:
            turns = f"{len(self.turns)} of {self.limits.processes * self.limits.turns} turns"
            return self.give_up(MeasurementStatus.MEASURED, f"{cause} after {turns}")
        return self.give_up(status, f"{cause}; samples taken: {samples + len(self.unfinished)}")

    def conditions_of(
        self,
        monitor: Monitor,
        spans: Sequence[tuple[float, float]],
        wait_share: float | None = None,
    ) -> list[bool]:
        """Record conditions from the first to the last span; return which spans were throttled."""
        start, end = spans[0][0], spans[-1][1]
        monitor.now()  # so that even a short span is followed by a reading
        during = monitor.during(start, end)
        self.found.setdefault("conditions_before", monitor.at(start))
        self._during.append(during.model_copy(update={"cpu_wait_share": wait_share}))
        self.found.update(conditions_after=monitor.at(end))
        return [monitor.throttled(*span) for span in spans]

    def _keep_the_worst(self, correctness: Correctness | None) -> None:
        known = self.found.get("correctness")
        if correctness and (known is None or correctness.relative_error > known.relative_error):
            self.found["correctness"] = correctness

    def _is_over(self) -> bool:
        """Return whether all turns have been taken, or another would take too long (PATIENCE)."""
        done, limits = len(self.turns), self.limits
        next_ends = self.spent_seconds * (done + 1) / done
        late = next_ends > PATIENCE * limits.max_seconds
        return done >= limits.processes * limits.turns or late

    def _sampled(
        self,
        process_samples: Sequence[int],
        throttled: Sequence[bool],
        criterion: Criterion,
        resolution_seconds: float = 0.0,
        **phases: float,
    ) -> dict[str, Any]:
        """Return the Measurement fields that describe the samples and how they were taken."""
        samples = self.samples
        return {
            "samples_seconds": tuple(samples),
            "process_samples": tuple(process_samples),
            "turn_samples": tuple(len(turn.seconds) for turn in self.turns if turn.seconds),
            "outlier_samples": outliers(samples),
            "throttled_samples": tuple(i for i, slow in enumerate(throttled) if slow),
            "multimodal": multimodal(samples, resolution_seconds),
            "stopping": stopping(criterion, samples),
            "phases": Phases(compute_seconds=statistics.median(samples), **phases),
            "conditions_during": mean_conditions(self._during),
        }

    def _named(self, status: MeasurementStatus, reason: str | None, **figures: Any) -> Measurement:
        return Measurement(
            workload=self.workload.name,
            parameters=dict(self.parameters),
            dtype=self.dtype,
            status=status,
            reason=reason and reason[:MOST_CHARACTERS],
            **figures,
        )

    def _listener(self, bench: Bench) -> Callable[[str, Any], None]:
        def hear(kind: str, value: Any) -> None:
            if kind == "samples":
                self.unfinished = value
            else:
                bench.marks.hear(kind, value)

        return hear
