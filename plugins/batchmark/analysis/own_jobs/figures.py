"""Computes the run times, costs and metrics of a side's jobs for each job size and start."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TypeGuard

from batchmark.analysis.cost import usd_per_job
from batchmark.analysis.own_jobs.records import JobFigure, MetricFigure, Place
from batchmark.analysis.pooling import TargetJobs
from batchmark.analysis.samples import RowKey, RowSamples, provenance
from batchmark.analysis.sides import PricedTarget
from batchmark.core.formatting import count
from batchmark.core.intervals import known_median
from batchmark.core.own_jobs import LARGEST_SIZE
from batchmark.core.row_values import ToldMetric
from batchmark.core.run import CollectedJob
from batchmark_job.result.own_job import START, OwnersCheck, OwnJob
from batchmark_job.result.values import Parameter

STARTS = ("cold", "warm", None)  # in the order of places


def place_of(key: RowKey, axis: str | None) -> Place:
    parameters = dict(key[1])
    size, start = parameters.get(axis or ""), parameters.get(START)
    return Place(
        size=size if _is_size(size) else None,
        start="cold" if start == "cold" else "warm" if start == "warm" else None,
    )


def _is_size(value: Parameter | None) -> TypeGuard[float]:
    """Check whether a value is a valid job size; a result document can contain any value."""
    if isinstance(value, str | bool | None):
        return False
    return 0 < value <= LARGEST_SIZE


def place_order(place: Place) -> tuple[int, float]:
    """Return a sort key that puts cold instances and small sizes first."""
    return STARTS.index(place.start), place.size or 0.0


def figures_of(side: PricedTarget, axis: str | None) -> tuple[JobFigure, ...]:
    """Return a figure for each job size and start at which the target had jobs, even lost ones."""
    keys: dict[Place, list[RowKey]] = defaultdict(list)
    for key in side.pooled.samples:
        if not ToldMetric.of(dict(key[1])):
            keys[place_of(key, axis)].append(key)
    found = [_figure(side, of_place, axis) for of_place in keys.values()]
    found += _lost(side.pooled, {figure.place.size for figure in found})
    return tuple(sorted(found, key=lambda figure: place_order(figure.place)))


def _figure(side: PricedTarget, keys: Sequence[RowKey], axis: str | None) -> JobFigure:
    """Build a place's figure. Several rows are an error; documents must have one row per size."""
    samples, place = side.pooled.samples[keys[0]], place_of(keys[0], axis)
    several = f"its documents have {len(keys)} rows for this size instead of one" * (len(keys) > 1)
    problem = several or samples.problem
    measured = None if problem else samples.median
    seconds = measured and measured.estimate()
    everything = (*samples.measured, *samples.unmeasured)
    checks = dict.fromkeys(told for job, row in everything for told in _checks(job, row.check))
    metrics = [] if problem else _metrics(side, place, axis)
    return JobFigure(
        place=place,
        seconds=seconds,
        problem=problem,
        longest_seconds=None if measured is None else float(measured.samples.max()),
        jobs=len(samples.measured) if measured else 0,
        command_seconds=_over_jobs(samples, lambda job: job.command_seconds),
        waiting_seconds=_over_jobs(samples, lambda job: job.waiting_seconds),
        usd_per_job=seconds and usd_per_job(seconds, side.price),
        checked_by=tuple(checks),
        metrics=tuple(metrics),
        warnings=tuple(warning.text for warning in samples.warnings()),
        doubts=_doubts([job for job, _ in everything]),
        provenance=tuple(provenance(job) for job, _ in everything),
    )


def _checks(job: CollectedJob, check: OwnersCheck | None) -> Iterator[str]:
    """Name the checks made on a job's result; a checksum is named after the output's path."""
    output = job.planned.own_job and job.planned.own_job.output
    hashed = check and check.output_sha256 and output
    if check and not (hashed and check.kind == "checksum"):
        yield check.kind
    if hashed:
        yield f"the checksum of {output}"


def _doubts(jobs: Sequence[CollectedJob]) -> tuple[str, ...]:
    """List doubts about the jobs, each with the number of jobs that it concerns."""
    told = [job.document.own_job for job in jobs]
    found = Counter(doubt for own_job in told if own_job for doubt in own_job.doubts)
    return tuple(
        f"{number} of {count(len(jobs), 'job')}: {doubt}" for doubt, number in found.items()
    )


def _over_jobs(samples: RowSamples, read: Callable[[OwnJob], float | None]) -> float | None:
    """Return the median of a value over the jobs that report it."""
    told = (job.document.own_job for job, _ in samples.measured)
    return known_median(read(own_job) for own_job in told if own_job)


def _metrics(side: PricedTarget, place: Place, axis: str | None) -> Iterator[MetricFigure]:
    for key, samples in side.pooled.samples.items():
        told = ToldMetric.of(dict(key[1]))
        if told and samples.median and place_of(key, axis) == place:
            found = samples.median.estimate()
            is_rate = told.higher_is_better and told.unit.endswith("/s")
            yield MetricFigure(
                metric=told.name,
                unit=told.unit,
                higher_is_better=told.higher_is_better,
                value=told.estimate(found),
                values=samples.median.samples.size,
                jobs=len(samples.measured),
                # A rate's sample is the seconds that one unit takes.
                usd_per_unit=usd_per_job(found, side.price) if is_rate else None,
            )


def _lost(target: TargetJobs, known: set[float | int | None]) -> Iterator[JobFigure]:
    """Yield a figure for each size at which none of the target's jobs left a result."""
    reasons: dict[float | int | None, str] = {}
    for lost in target.lost:
        if lost.planned.own_job and lost.planned.own_job.size not in known:
            reasons.setdefault(lost.planned.own_job.size, lost.why)
    for size, reason in reasons.items():
        yield JobFigure(
            place=Place(size=size, start=None),
            seconds=None,
            problem=f"none of its jobs left a result: {reason}",
            jobs=0,
            command_seconds=None,
            waiting_seconds=None,
            usd_per_job=None,
            checked_by=(),
            metrics=(),
            provenance=(),
        )
