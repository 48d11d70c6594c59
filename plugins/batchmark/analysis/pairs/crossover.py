"""Finds the sizes from which a GPU target pays off, in time and in cost, warm and cold.

Warm costs are medians of warm calls. Cold costs are those of a job that makes a single call: start
the process, wait until the device is ready, copy the inputs in, call, and copy the output out. An
implementation's first call in a job loads its libraries, so every cold call includes at least that
overhead, but not the time that other workloads already spent on loading. Time before the process
start belongs to the cold start.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import scipy
from pydantic import Field

from batchmark.analysis.judging.noise import RowNoise, SideNoise
from batchmark.analysis.judging.significance import log_spread
from batchmark.analysis.pairs.break_even import BreakEven, Curve, break_even
from batchmark.analysis.pooling import TargetJobs
from batchmark.analysis.samples import RowKey, RowSamples, kept_samples
from batchmark.analysis.sides import PricedTarget
from batchmark.core.intervals import MINIMUM_SAMPLES, Median
from batchmark.core.record import Record
from batchmark.core.run import CollectedJob
from batchmark_job.result.confidence import CONFIDENCE
from batchmark_job.result.document import Measurement, MeasurementStatus, Phases
from batchmark_job.result.values import Parameter

NO_MARKS = "no job recorded when its device was ready"


class RowVerdict(NamedTuple):
    """A row's winners in time and cost: 1 is the GPU target, -1 the CPU target, 0 undecided."""

    faster: int
    cheaper: int
    noise: RowNoise


class Crossover(Record):
    """The point where a workload's GPU and CPU costs break even along one axis of its grid."""

    workload: str
    dtype: str
    axis: str
    parameters: dict[str, Parameter] = Field(
        description="values of the other axes, which are the same at every size"
    )
    sizes: tuple[float, ...] = Field(description="sizes that both targets measured")
    warm_seconds: BreakEven
    warm_usd: BreakEven | None = Field(description="null unless both targets have prices")
    cold_seconds: BreakEven | None = Field(
        description="crossover of jobs with one call; null for users' own jobs, whose rows are "
        "entire jobs"
    )
    cold_usd: BreakEven | None
    cold_reason: str | None = Field(description="why there is no cold crossover")


def find_crossovers(
    gpu: PricedTarget, cpu: PricedTarget, verdicts: Mapping[RowKey, RowVerdict]
) -> tuple[Crossover, ...]:
    """Find a crossover for each group of two or more compared rows that differ only in size.

    The rows' verdicts decide which target is ahead at a size. Their noise widens the interval by
    the job-to-job scatter that this run's own jobs do not show.
    """
    usd = None
    if gpu.price.usd_per_hour is not None and cpu.price.usd_per_hour is not None:
        usd = gpu.price.usd_per_hour, cpu.price.usd_per_hour
    return tuple(
        _crossover(gpu.pooled, cpu.pooled, usd, axis, {key: verdicts[key] for key in keys})
        for axis, keys in _rows_by_axis(verdicts)
    )


def _crossover(
    gpu: TargetJobs,
    cpu: TargetJobs,
    usd: tuple[float, float] | None,
    axis: str,
    line: Mapping[RowKey, RowVerdict],
) -> Crossover:
    keys, rows = list(line), list(line.values())
    sizes = [float(dict(key[1])[axis]) for key in keys]
    warm = [
        _warm(gpu, keys, [row.noise.gpu for row in rows]),
        _warm(cpu, keys, [row.noise.cpu for row in rows]),
    ]
    warm_seconds, warm_usd = _in_seconds_and_usd(sizes, warm, usd, rows)
    whole_jobs = any(gpu.samples[key].row.check for key in keys)
    cold = {} if whole_jobs else {target.name: _cold(target, keys) for target in (gpu, cpu)}
    missing = [name for name, curve in cold.items() if not curve]
    cold_seconds = cold_usd = None
    if cold and not missing:
        cold_seconds, cold_usd = _in_seconds_and_usd(sizes, [*cold.values()], usd)
    workload, parameters, dtype = keys[0]
    return Crossover(
        workload=workload,
        dtype=dtype,
        axis=axis,
        parameters={name: value for name, value in parameters if name != axis},
        sizes=tuple(sizes),
        warm_seconds=warm_seconds,
        warm_usd=warm_usd,
        cold_seconds=cold_seconds,
        cold_usd=cold_usd,
        cold_reason=f"{' and '.join(missing)}: {NO_MARKS}" if missing else None,
    )


def calls_until_gpu_pays(gpu: RowSamples, cpu: RowSamples) -> int | None:
    """Return the smallest number of calls for which a GPU job finishes first, start-up included.

    Returns None if there is no such number, or if no job of a target recorded its start-up time.
    """
    gpu_first, cpu_first = _one_call(gpu, "gpu"), _one_call(cpu, "cpu")
    if not (gpu.median and cpu.median and gpu_first and cpu_first):
        return None
    behind = gpu_first.value - cpu_first.value
    gained = cpu.median.value - gpu.median.value
    if gained <= 0:
        return None
    return 1 if behind < 0 else 2 + int(behind / gained)


def _rows_by_axis(keys: Iterable[RowKey]) -> list[tuple[str, list[RowKey]]]:
    """Group rows that differ along only one axis, in ascending order, and name each group's axis.

    The axis is the parameter with the most values; it is `batch` only if nothing else varies.
    """
    workloads: dict[tuple[str, str], list[RowKey]] = defaultdict(list)
    for key in keys:
        workloads[key[0], key[2]].append(key)
    lines = []
    for rows in workloads.values():
        values = _sizes(rows)
        if not values:
            continue
        axis = max(values, key=lambda name: (name != "batch", len(values[name])))
        by_rest: dict[tuple[object, ...], list[RowKey]] = defaultdict(list)
        for key in rows:
            if dict(key[1]).get(axis) in values[axis]:
                by_rest[tuple(pair for pair in key[1] if pair[0] != axis)].append(key)
        lines += [
            (axis, sorted(line, key=lambda key: float(dict(key[1])[axis])))
            for line in by_rest.values()
            if len(line) > 1
        ]
    return lines


def _sizes(rows: Iterable[RowKey]) -> dict[str, set[Parameter]]:
    """Return the positive values of each parameter that has at least two of them."""
    values: dict[str, set[Parameter]] = defaultdict(set)
    for _, parameters, _ in rows:
        for name, value in parameters:
            if not isinstance(value, str) and value > 0:
                values[name].add(value)
    return {name: seen for name, seen in values.items() if len(seen) > 1}


def _in_seconds_and_usd(
    sizes: Sequence[float],
    curves: Sequence[Curve | None],
    usd: tuple[float, float] | None,
    rows: Sequence[RowVerdict] = (),
) -> tuple[BreakEven, BreakEven | None]:
    """Return the crossovers in seconds and in USD; the latter is None without prices."""
    gpu, cpu = (curve for curve in curves if curve)
    seconds = break_even(sizes, gpu, cpu, [row.faster for row in rows] or None)
    if usd is None:
        return seconds, None
    gpu, cpu = gpu.scaled(usd[0]), cpu.scaled(usd[1])
    return seconds, break_even(sizes, gpu, cpu, [row.cheaper for row in rows] or None)


def _warm(target: TargetJobs, keys: Sequence[RowKey], noises: Sequence[SideNoise]) -> Curve:
    samples = [target.samples[key] for key in keys]
    deviations = [
        _unresampled(
            math.log1p(noise.floor),
            noise.degrees,
            len(row.measured),
            resampled=noise.source == "repeats",
        )
        for row, noise in zip(samples, noises, strict=True)
    ]
    curve = Curve.of([row.median for row in samples if row.median])
    return curve.with_noise(deviations, seed=f"{target.name} {keys}")


def _unresampled(log_sd: float, degrees: float | None, jobs: int, *, resampled: bool) -> float:
    """Return the part of a log mean's standard deviation that resampling the jobs misses.

    The error of a mean follows Student's t if its scatter is known with few degrees of freedom.
    Resampling n jobs reproduces (n - 1) / n of their variance.
    """
    tail = (1 - CONFIDENCE) / 2
    wider = scipy.special.stdtrit(degrees, tail) / scipy.special.ndtri(tail) if degrees else 1.0
    given = (jobs - 1) / jobs if resampled else 0.0
    return log_sd * math.sqrt((wider**2 - given) / jobs)


def _cold(target: TargetJobs, keys: Sequence[RowKey]) -> Curve | None:
    calls = [_one_call(target.samples[key], target.name) for key in keys]
    known = [call for call in calls if call]
    if len(known) < len(calls):
        return None
    curve = Curve.of(known)
    jobs = min(call.samples.size for call in known)
    if curve.reason:
        there_are = "there is 1" if jobs == 1 else f"there are {jobs}"
        return curve._replace(reason=f"as it takes {MINIMUM_SAMPLES} jobs and {there_are}")
    deviations = [
        _unresampled(log_spread(list(call.samples)), count - 1, count, resampled=True)
        for call in known
        for count in [call.samples.size]
    ]
    return curve.with_noise(deviations, seed=f"{target.name} one call")


def _one_call(samples: RowSamples, target: str) -> Median | None:
    """Return a single-call job's time in seconds, with one sample per job, or None if unknown.

    A job's rows share its start-up time, so a target's jobs are drawn together for all rows.
    """
    seconds = [_one_call_seconds(job, row) for job, row in samples.by_job]
    known = [[value] for value in seconds if value is not None]
    return Median(known, drawn_with=target) if known else None


def _one_call_seconds(job: CollectedJob, row: Measurement) -> float | None:
    marks = job.document.marks
    if not (marks and marks.device_ready_at and row.cold_seconds):
        return None
    startup = (marks.device_ready_at - marks.process_started_at).total_seconds()
    phases = row.phases or Phases()
    ways = (phases.allocate_seconds, phases.host_to_device_seconds, phases.device_to_host_seconds)
    cold = row.cold_seconds
    if not row.process_samples:  # another row of the same process may have loaded its library
        cold = max(cold, median(kept_samples(row)) + _first_use(job, row))
    return max(0.0, startup) + cold + sum(filter(None, ways))


def _first_use(job: CollectedJob, row: Measurement) -> float:
    """Return how many seconds longer the implementation's first call took than a warm call.

    Libraries are loaded during that call, so cold calls in later rows do not include this time.
    """
    first = next(
        earlier
        for earlier in job.document.measurements
        if earlier.status is MeasurementStatus.MEASURED
        and (earlier.workload, earlier.implementation) == (row.workload, row.implementation)
    )
    return (first.cold_seconds or 0.0) - median(kept_samples(first))
