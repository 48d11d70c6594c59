"""Collects one row's measurements from a target's jobs, and computes figures from them."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from pydantic import Field

from batchmark.analysis.roofline import Roofline, rate, roofline
from batchmark.core.formatting import percent
from batchmark.core.intervals import MINIMUM_SAMPLES, Estimate, Median, known_median
from batchmark.core.record import Record
from batchmark.core.run import CollectedJob
from batchmark_job.result.document import Implementation, Measurement, Trial
from batchmark_job.result.values import Parameter

# Thresholds from which a row carries a warning.
WIDE_SPREAD = 0.10  # interquartile range over median
ABOVE_CEILING = 1.05  # share of a ceiling; ceilings themselves scatter less
TOO_FAST = "of the ceiling measured in the same jobs, so one of the two is wrong"
CACHED = 1.5  # size of all input sets over that of the cache; below, some stay in the cache
LEAST_JOULES = 1e-12  # per call: a counter of millijoules can't measure less
MUCH_STEAL = 0.02  # share of CPU time taken by the hypervisor
MUCH_WAITING = 0.05  # share of the time in which threads had work but no CPU

Number = TypeVar("Number", int, float)
WarningKind = Literal[
    "incomplete", "throttled", "disturbed", "unsettled", "above_ceiling", "rivals"
]
RowKey = tuple[str, tuple[tuple[str, Parameter], ...], str]


class Keyed(Protocol):
    """The fields of a row's key, which measurements and comparison rows have in common."""

    @property
    def workload(self) -> str: ...
    @property
    def parameters(self) -> dict[str, Parameter]: ...
    @property
    def dtype(self) -> str: ...


class Provenance(Record):
    """A job that a figure comes from, with its log and result document."""

    job_id: str
    job_attempt: int
    repeat: int
    log_group: str
    log_stream: str
    log_url: str
    document_uri: str
    document_url: str


class RowWarning(NamedTuple):
    """A caveat about one target's figure for one row."""

    kind: WarningKind
    text: str


class Side(Record):
    """One target's figures for one row."""

    median_seconds: Estimate
    samples: int = Field(ge=1, description="number of samples used for the median")
    jobs: int = Field(ge=1)
    relative_spread: float | None = Field(description="interquartile range / median")
    cold_seconds: float = Field(
        description="time of the first call of this code at this size, including loading its "
        "libraries if they were not loaded yet; median over the jobs"
    )
    implementation: Implementation
    trials: tuple[Trial, ...] = Field(
        description="trials of all candidate implementations in the first job"
    )
    roofline: Roofline | None = Field(description="null if the row's work is not counted")
    items_per_second: Estimate | None = Field(
        description="images per second; null if the row doesn't process images"
    )
    peak_memory_bytes: int | None = Field(description="maximum over the jobs")
    energy_joules: float | None = Field(description="energy per call; median over the jobs")
    flops_per_joule: float | None
    kernel_seconds: float | None = Field(
        default=None, description="time on the GPU alone, excluding launches; median over the jobs"
    )
    latency_seconds: float | None = Field(
        default=None,
        description="time until the host knows that a call is done; median over the jobs",
    )
    steal_share: float | None = Field(
        description="share of CPU time that the hypervisor took; maximum over the jobs"
    )
    wait_share: float | None = Field(
        description="share of runnable time that threads spent waiting for a CPU; maximum over "
        "the jobs"
    )
    throttled_samples: int = Field(
        description="number of samples taken while the device was throttled"
    )
    throttled_left_out: int = Field(
        description="number of throttled samples excluded from the median"
    )
    outlier_samples: int = Field(
        description="number of samples flagged as outliers but kept in the median"
    )
    multimodal_jobs: int = Field(
        description="number of jobs whose samples cluster around several values"
    )
    stopping: dict[str, int] = Field(
        description="number of jobs for each reason why sampling ended"
    )
    provenance: tuple[Provenance, ...]

    def disturbances(self) -> Iterable[RowWarning]:
        """Yield a warning for each kind of disturbance that may have slowed the samples."""
        if self.throttled_left_out:
            yield RowWarning(
                "throttled",
                f"{self.throttled_left_out} samples left out of the median because the device was "
                f"throttled",
            )
        if kept := self.throttled_samples - self.throttled_left_out:
            yield RowWarning(
                "throttled",
                f"{kept} samples in the median were taken while the device was throttled; without "
                f"them a job would have fewer than {MINIMUM_SAMPLES}",
            )
        if self.steal_share and self.steal_share > MUCH_STEAL:
            yield RowWarning(
                "disturbed",
                f"the hypervisor took {percent(self.steal_share)} of CPU time from the machine",
            )
        if self.wait_share and self.wait_share > MUCH_WAITING:
            yield RowWarning(
                "disturbed",
                f"other work on the machine: the job's threads waited {percent(self.wait_share)} "
                "of "
                "their time for a CPU",
            )


@dataclass
class RowSamples:
    """One row's measurements from all of a target's jobs.

    Figures are cached, so add all measurements before reading the first figure.
    """

    check_problem: str | None = None  # why their owner's check disqualifies all of them
    measured: list[tuple[CollectedJob, Measurement]] = field(default_factory=list)
    unmeasured: list[tuple[CollectedJob, Measurement]] = field(default_factory=list)

    @cached_property
    def median(self) -> Median | None:
        """The median of all jobs' samples; None if no job measured the row."""
        if not self.measured:
            return None
        return median_of(self._rows)

    @property
    def _rows(self) -> list[Measurement]:
        return [row for _, row in self.by_job]

    @cached_property
    def by_job(self) -> list[tuple[CollectedJob, Measurement]]:
        """What was measured, by when: figures must not depend on how a run numbers its jobs."""
        return sorted(self.measured, key=lambda one: one[0].document.started_at)

    @property
    def row(self) -> Measurement:
        return (self.measured or self.unmeasured)[0][1]

    @property
    def provenance(self) -> tuple[Provenance, ...]:
        return tuple(provenance(job) for job, _ in self.measured or self.unmeasured)

    @property
    def implementations(self) -> list[str]:
        return list(dict.fromkeys(f"{code.name} {code.version}" for code in codes_of([self])))

    @property
    def by_trial(self) -> bool:
        """Whether all jobs chose their implementation in trials of the same candidates."""
        rivals = {
            frozenset((t.implementation.name, t.implementation.version) for t in row.trials)
            for row in self._rows
        }
        return len(rivals) == 1 and rivals != {frozenset()}

    @cached_property
    def side(self) -> Side | None:
        """Return the pooled figures; None if no job measured the row."""
        rows = self._rows
        cold = known_median(row.cold_seconds or None for row in rows)
        if not (self.median and cold and self.row.implementation):
            return None
        seconds = self.median.estimate()
        phases = [row.phases for row in rows if row.phases]
        joules = known_median(row.energy_joules or None for row in rows)
        return Side(
            median_seconds=seconds,
            samples=self.median.samples.size,
            jobs=len(rows),
            relative_spread=self.median.relative_spread(),
            cold_seconds=cold,
            implementation=self.row.implementation,
            trials=self.row.trials,
            roofline=roofline(self.row, [job.document for job, _ in self.measured], seconds),
            items_per_second=rate(self.row.items, seconds),
            peak_memory_bytes=largest(row.peak_memory_bytes for row in rows),
            energy_joules=joules,
            flops_per_joule=(
                self.row.flops / joules
                if self.row.flops and joules and joules >= LEAST_JOULES
                else None
            ),
            kernel_seconds=known_median(one.kernel_seconds or None for one in phases),
            latency_seconds=known_median(one.latency_seconds or None for one in phases),
            stopping=dict(Counter(row.stopping.criterion for row in rows if row.stopping)),
            provenance=self.provenance,
            **self._odd_samples(),
        )

    def _odd_samples(self) -> dict[str, Any]:
        rows = self._rows
        during = [row.conditions_during for row in rows if row.conditions_during]
        # Replicas that share cores wait for each other; that is not a disturbance.
        alone = [row.conditions_during for row in rows if row.conditions_during and not row.sharing]
        return {
            "steal_share": largest(conditions.cpu_steal_share for conditions in during),
            "wait_share": largest(conditions.cpu_wait_share for conditions in alone),
            "throttled_samples": sum(len(row.throttled_samples) for row in rows),
            "throttled_left_out": sum(
                len(row.samples_seconds) - len(kept_samples(row)) for row in rows
            ),
            "outlier_samples": sum(len(row.outlier_samples) for row in rows),
            "multimodal_jobs": sum(bool(row.multimodal) for row in rows),
        }

    @property
    def problem(self) -> str | None:
        """The reason why there is no figure; None if there is one."""
        if not (self.measured or self.unmeasured):
            return "not among its rows"
        if self.check_problem:
            return self.check_problem
        if not self.measured:
            return self.reasons()
        if len(names := self.implementations) > 1 and not self.by_trial:
            one_code = len({code.name for code in codes_of([self])}) == 1
            mixed = "; keep the results of each version apart" * one_code
            return f"its jobs used different implementations ({', '.join(names)}){mixed}"
        return None

    def reasons(self) -> str:
        """List the reasons why some jobs did not measure this row."""
        return "; ".join(dict.fromkeys(f"{m.status}: {m.reason}" for _, m in self.unmeasured))

    def _too_fast(self, roofline: Roofline) -> bool:
        """Check whether the rate exceeds its ceiling.

        Memory-bound rows that might fit in a cache are exempt.
        """
        cached = any((row.caches_filled or 0) < CACHED for row in self._rows)
        above = (roofline.share or 0) > ABOVE_CEILING
        return above and not (roofline.bound == "memory" and cached)

    def warnings(self) -> Iterable[RowWarning]:
        """Yield warnings about what to check before trusting a measured row."""
        side = self.side
        if side is None:
            return
        if side.relative_spread and side.relative_spread > WIDE_SPREAD:
            yield RowWarning(
                "unsettled",
                "wide spread, with the middle half of the samples covering "
                f"{percent(side.relative_spread)} of their median",
            )
        if side.roofline and self._too_fast(side.roofline):
            share = percent(side.roofline.share or 0)
            yield RowWarning("above_ceiling", f"its rate is {share} {TOO_FAST}")
        if side.multimodal_jobs:
            yield RowWarning(
                "unsettled",
                f"the samples of {side.multimodal_jobs} of {side.jobs} jobs cluster around more "
                "than one value, which a median can't describe",
            )
        yield from side.disturbances()
        if len(names := self.implementations) > 1:
            yield RowWarning(
                "rivals", f"nearly equal implementations: its jobs chose {' and '.join(names)}"
            )
        if self.unmeasured:
            jobs = len(self.measured) + len(self.unmeasured)
            yield RowWarning(
                "incomplete", f"{len(self.unmeasured)} of {jobs} jobs {self.reasons()}"
            )


def row_key(row: Keyed) -> RowKey:
    return row.workload, tuple(sorted(row.parameters.items())), row.dtype


def parameters_json(parameters: Mapping[str, Parameter]) -> str:
    """Serialise a row's parameters as they are stored in the history: as JSON with sorted keys."""
    return json.dumps(parameters, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def codes_of(rows: Iterable[RowSamples]) -> tuple[Implementation, ...]:
    """Return the distinct implementations that measured these rows; each job chooses its own."""
    used = (row.implementation for samples in rows for _, row in samples.measured)
    return tuple(dict.fromkeys(code for code in used if code))


def kept_samples(row: Measurement) -> list[float]:
    """Return the samples in seconds, without throttled ones if enough are left for an interval."""
    return [row.samples_seconds[index] for index in _kept(row)]


def median_of(rows: Sequence[Measurement]) -> Median:
    """Return the median of one row's kept samples over several jobs."""
    return Median(
        [kept_samples(row) for row in rows],
        turns=[_kept_by_turn(row) for row in rows],
        seed=str(row_key(rows[0])),
    )


def _kept(row: Measurement) -> list[int]:
    """Return the indexes of the samples to keep."""
    throttled = set(row.throttled_samples)
    kept = [index for index in range(len(row.samples_seconds)) if index not in throttled]
    return kept if len(kept) >= MINIMUM_SAMPLES else list(range(len(row.samples_seconds)))


def _kept_by_turn(row: Measurement) -> list[list[int]]:
    """Count the kept samples in each turn of each process, leaving out empty turns."""
    of_processes = row.process_samples or (len(row.samples_seconds),)
    process_ends = list(accumulate(of_processes))
    turn_ends = list(accumulate(row.turn_samples or of_processes))
    counted = Counter(bisect_right(turn_ends, index) for index in _kept(row))
    processes: list[list[int]] = [[] for _ in process_ends]
    for turn, ends in enumerate(turn_ends):
        if counted[turn]:
            processes[bisect_left(process_ends, ends)].append(counted[turn])
    return [process for process in processes if process]


def provenance(job: CollectedJob) -> Provenance:
    own = job.model_dump(include=set(Provenance.model_fields))
    return Provenance(repeat=job.planned.repeat, **own)


def largest(values: Iterable[Number | None]) -> Number | None:
    return max((value for value in values if value is not None), default=None)
