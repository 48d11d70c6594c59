"""Builds a task's throughput curves over the number of replicas sharing a device, by mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

from pydantic import Field, ValidationError

from batchmark.analysis.cost import PriceBasis, usd_per_job
from batchmark.analysis.roofline import rate
from batchmark.analysis.samples import Provenance, RowSamples
from batchmark.analysis.sharing.knee import Knee, find_knee
from batchmark.analysis.sharing.replicas import ReplicaFigures, Starved, StepTimes, ends_of, starved
from batchmark.core.intervals import Estimate, Median, ratio
from batchmark.core.record import Record
from batchmark_job.result.sharing import Disturbance, Sharing, SharingMode
from batchmark_job.result.sharing_options import MOST_REPLICAS
from batchmark_job.result.values import Parameter

Form = Literal["processes", "jobs", "pods"]
STEPS = 1_000  # for which dollars are given


class Point(Record):
    """The throughput at one replica count, in total and per replica."""

    replicas: int
    jobs: int
    samples: int
    throughput: Estimate = Field(description="combined steps per second of all replicas")
    items_per_second: Estimate | None = Field(
        description="images per second; null if the steps don't process images"
    )
    gain: Estimate | None = Field(
        description="throughput relative to that of one task alone; null if no task was "
        "measured alone"
    )
    usd_per_1000_steps: Estimate | None = Field(description="null if the price is unknown")
    interference: float | None = Field(
        description="median step time of the slowest replica, relative to that of a task alone"
    )
    figures: ReplicaFigures
    starved: tuple[Starved, ...]
    warnings: tuple[str, ...]
    provenance: tuple[Provenance, ...]


class Unmeasured(Record):
    """A replica count without a result, and the reason why."""

    replicas: int
    reason: str


class Alone(Record):
    """The throughput of one task that has the device to itself."""

    throughput: Estimate = Field(description="steps per second")
    steps: StepTimes
    usd_per_1000_steps: Estimate | None


class Curve(Record):
    mode: SharingMode
    form: Form
    mps_threads: int | None = Field(
        description="percentage of the GPU's threads available to each MPS client"
    )
    mps_memory_mib: int | None = Field(description="GPU memory available to each MPS client")
    alone: Alone | None = Field(
        description="a task alone, measured in exclusive mode if possible, otherwise in this "
        "mode; null if neither was measured"
    )
    points: tuple[Point, ...] = Field(description="ordered by replica count")
    unmeasured: tuple[Unmeasured, ...]
    knee: Knee | None = Field(
        description="null in exclusive mode, where more replicas add no throughput"
    )

    def point(self, replicas: int) -> Point | None:
        return next((point for point in self.points if point.replicas == replicas), None)


class Place(Record):
    """How the replicas of a row share the device, read from the row's parameters."""

    mode: SharingMode
    replicas: int = Field(ge=1, le=MOST_REPLICAS)
    form: Form = "processes"
    disturbance: Disturbance | None = None
    mps_threads: int | None = None
    mps_memory_mib: int | None = None

    @classmethod
    def of(cls, parameters: Mapping[str, Parameter]) -> Self | None:
        """Parse row parameters; return None if they don't mention sharing, as in other suites."""
        named = {name: value for name, value in parameters.items() if name in cls.model_fields}
        try:
            return cls.model_validate(named)
        except ValidationError:
            return None


@dataclass(frozen=True)
class SharedSamples:
    """A row's samples from all of a target's jobs, and how the device was shared."""

    place: Place
    pooled: RowSamples
    price: PriceBasis

    @classmethod
    def of(cls, pooled: RowSamples, price: PriceBasis) -> Self | None:
        """Wrap a row; return None if its task did not share a device."""
        place = Place.of(pooled.row.parameters)
        if place is None or not all(row.sharing for _, row in pooled.measured):
            return None
        return cls(place, pooled, price)

    @cached_property
    def problem(self) -> str | None:
        """The reason why there is no figure; None if there is one."""
        if self.pooled.problem or self.place.disturbance:
            return self.pooled.problem
        return "; ".join(str(end) for end in ends_of(self.rows) if not end.ran) or None

    @property
    def rows(self) -> list[Sharing]:
        """How replicas shared the device in jobs that measured the row, or else in the others."""
        rows = (row.sharing for _, row in self.pooled.measured or self.pooled.unmeasured)
        return [row for row in rows if row]

    @property
    def median(self) -> Median | None:
        """The median seconds per step of all replicas together; None if there is no figure."""
        return None if self.problem else self.pooled.median


def task_parameters(row: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return the task's own parameters, without those that say how it shares the device."""
    return {name: value for name, value in row.items() if name not in Place.model_fields}


def curves_of(found: Sequence[SharedSamples]) -> tuple[Curve, ...]:
    """Return a curve for each mode and form from a task's undisturbed rows."""
    lines: dict[tuple[SharingMode, Form], dict[int, SharedSamples]] = {}
    for samples in found:
        place = samples.place
        if not place.disturbance:
            lines.setdefault((place.mode, place.form), {})[place.replicas] = samples
    return tuple(
        _curve(mode, form, dict(sorted(line.items())), _alone_of(lines, mode, form))
        for (mode, form), line in lines.items()
    )


def _alone_of(
    lines: Mapping[tuple[SharingMode, Form], Mapping[int, SharedSamples]],
    mode: SharingMode,
    form: Form,
) -> SharedSamples | None:
    """Find the one-task baseline: exclusive mode or, failing that, one replica in this mode."""
    in_turn = {
        replicas: samples
        for replicas, samples in lines.get((SharingMode.EXCLUSIVE, form), {}).items()
        if samples.median
    }
    if in_turn:
        return in_turn[min(in_turn)]
    alone = lines[mode, form].get(1)
    return alone if alone and alone.median else None


def _curve(
    mode: SharingMode,
    form: Form,
    line: Mapping[int, SharedSamples],
    alone: SharedSamples | None,
) -> Curve:
    usual = alone or next((one for one in line.values() if one.median), None)
    missing = {replicas: reason for replicas, one in line.items() if (reason := _gap(one, usual))}
    measured = {
        replicas: one.median
        for replicas, one in line.items()
        if one.median and replicas not in missing
    }
    knee = None
    if mode is not SharingMode.EXCLUSIVE:
        one = {1: alone.median} if alone and alone.median else {}
        knee = find_knee(one | measured)
    first = next(iter(line.values())).place
    return Curve(
        mode=mode,
        form=form,
        mps_threads=first.mps_threads,
        mps_memory_mib=first.mps_memory_mib,
        alone=_alone(alone, alone.median) if alone and alone.median else None,
        points=tuple(
            _point(replicas, line[replicas], median, alone) for replicas, median in measured.items()
        ),
        unmeasured=tuple(
            Unmeasured(replicas=replicas, reason=reason) for replicas, reason in missing.items()
        ),
        knee=knee,
    )


def _gap(samples: SharedSamples, usual: SharedSamples | None) -> str | None:
    """Return why a replica count has no point on the curve, or None if it has one.

    Each job chooses its own implementation; a gain from a different one is not due to sharing.
    """
    if not (samples.median and usual):
        return samples.problem or "no samples"
    used, expected = (sorted(one.pooled.implementations) for one in (samples, usual))
    if used == expected:
        return None
    place = usual.place
    alone = place.replicas == 1 or place.mode is SharingMode.EXCLUSIVE
    whose = "the task alone" if alone else f"{place.replicas} replicas"
    return (
        f"its implementation differs from that of {whose}: {' and '.join(used)} instead of "
        f"{' and '.join(expected)}"
    )


def _alone(samples: SharedSamples, median: Median) -> Alone:
    seconds = median.estimate()
    return Alone(
        throughput=seconds.inverse(),
        steps=ReplicaFigures.of(samples.rows).typical,
        usd_per_1000_steps=usd_per_job(seconds, samples.price, STEPS),
    )


def _point(
    replicas: int,
    samples: SharedSamples,
    median: Median,
    alone: SharedSamples | None,
) -> Point:
    pooled, seconds = samples.pooled, median.estimate()
    figures = ReplicaFigures.of(samples.rows)
    return Point(
        replicas=replicas,
        jobs=len(pooled.measured),
        samples=median.samples.size,
        throughput=seconds.inverse(),
        items_per_second=rate(pooled.row.items, seconds),
        gain=_gain(median, alone.median) if alone and alone.median else None,
        usd_per_1000_steps=usd_per_job(seconds, samples.price, STEPS),
        interference=_interference(figures, alone),
        figures=figures,
        starved=tuple(_starved(pooled)),
        warnings=tuple(warning.text for warning in pooled.warnings()),
        provenance=pooled.provenance,
    )


def _gain(median: Median, alone: Median) -> Estimate:
    if median is alone:
        return Estimate(value=1.0, interval=None, interval_reason="it is the task alone")
    return ratio(alone, median)


def _interference(figures: ReplicaFigures, alone: SharedSamples | None) -> float | None:
    undisturbed = ReplicaFigures.of(alone.rows).typical.p50 if alone else None
    slowest = figures.slowest.p50
    return slowest / undisturbed if slowest and undisturbed else None


def _starved(pooled: RowSamples) -> Iterator[Starved]:
    for job, row in pooled.measured:
        if row.sharing:
            yield from starved(row.sharing, job.job_id)
