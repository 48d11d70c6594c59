"""The sizes from which a GPU target pays, in time and in dollars, warm and cold.

Warm costs are medians of warm calls. Cold ones are those of a job that makes one call: from the
start of its process until the device is ready, then the inputs' way in, the first call and the
output's way out. A call takes at least as much longer than a warm one as the first of its code in
the job did; what other workloads had loaded before is left out. What comes before the process is
in the ledger.
"""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field
from scipy import stats

from batchmark.break_even import Breakeven, Curve, break_even
from batchmark.estimate import CONFIDENCE, MINIMUM_SAMPLES, Median
from batchmark.record import Record
from batchmark.series import kept_samples
from batchmark.significance import log_spread
from batchmark_job.result import MeasurementStatus, Parameter, Phases

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from batchmark.cost import PriceBasis
    from batchmark.noise import RowNoise, SideNoise
    from batchmark.pooling import TargetJobs
    from batchmark.run import CollectedJob
    from batchmark.series import RowKey, Series
    from batchmark_job.result import Measurement

NO_MARKS = "no job says when its device was ready"


class RowVerdict(NamedTuple):
    """What is known of a compared row: 1 for the GPU target, -1 for the CPU target, 0 undecided."""

    faster: int
    cheaper: int
    noise: RowNoise


class Crossover(Record):
    """Where a workload's costs break even along one axis of its grid."""

    workload: str
    dtype: str
    axis: str
    parameters: dict[str, Parameter] = Field(description="the other axes, the same at every size")
    sizes: tuple[float, ...] = Field(description="that both targets measured")
    warm_seconds: Breakeven
    warm_usd: Breakeven | None = Field(description="null without the prices of both targets")
    cold_seconds: Breakeven | None = Field(description="of a job that makes one call")
    cold_usd: Breakeven | None
    cold_reason: str | None = Field(description="why there is none of a job that makes one call")


def find_crossovers(
    gpu: TargetJobs,
    cpu: TargetJobs,
    gpu_price: PriceBasis,
    cpu_price: PriceBasis,
    verdicts: Mapping[RowKey, RowVerdict],
) -> tuple[Crossover, ...]:
    """One for each workload, dtype and axis with two compared sizes or more.

    Args:
        verdicts: of the rows compared. They decide who is ahead at a size; their noise widens the
            interval by what the scatter of a target's jobs here does not show.
    """
    usd = None
    if gpu_price.usd_per_hour is not None and cpu_price.usd_per_hour is not None:
        usd = gpu_price.usd_per_hour, cpu_price.usd_per_hour
    found = []
    for axis, keys in _lines(verdicts):
        sizes = [float(dict(key[1])[axis]) for key in keys]
        rows = [verdicts[key] for key in keys]
        warm = [
            _warm(gpu, keys, [row.noise.gpu for row in rows]),
            _warm(cpu, keys, [row.noise.cpu for row in rows]),
        ]
        cold = [_cold(target, keys) for target in (gpu, cpu)]
        workload, parameters, dtype = keys[0]
        missing = [target.name for target, curve in zip((gpu, cpu), cold, strict=True) if not curve]
        warm_seconds, warm_usd = _both(sizes, warm, usd, rows)
        cold_seconds, cold_usd = (None, None) if missing else _both(sizes, cold, usd)
        found.append(
            Crossover(
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
        )
    return tuple(found)


def calls_until_gpu_pays(gpu: Series, cpu: Series) -> int | None:
    """Calls of a row in one job from which the GPU's takes less time, from its process's start.

    None where there is no such number, or where no job says how long it took to start.
    """
    gpu_first, cpu_first = _one_call(gpu, "gpu"), _one_call(cpu, "cpu")
    if not (gpu.median and cpu.median and gpu_first and cpu_first):
        return None
    behind = gpu_first.value - cpu_first.value
    gained = cpu.median.value - gpu.median.value
    if gained <= 0:
        return None
    return 1 if behind < 0 else 2 + int(behind / gained)


def _lines(keys: Iterable[RowKey]) -> list[tuple[str, list[RowKey]]]:
    """An axis, and rows in ascending order that differ along it alone.

    It is the axis with the most values; a batch only where nothing else varies.
    """
    workloads: dict[tuple[str, str], list[RowKey]] = defaultdict(list)
    for key in keys:
        workloads[key[0], key[2]].append(key)
    lines = []
    for rows in workloads.values():
        values: dict[str, set[Parameter]] = defaultdict(set)
        for _, parameters, _ in rows:
            for name, value in parameters:
                if not isinstance(value, str) and value > 0:
                    values[name].add(value)
        varying = [name for name, seen in values.items() if len(seen) > 1]
        if not varying:
            continue
        axis = max(varying, key=lambda name: (name != "batch", len(values[name])))
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


def _both(
    sizes: Sequence[float],
    curves: Sequence[Curve | None],
    usd: tuple[float, float] | None,
    rows: Sequence[RowVerdict] = (),
) -> tuple[Breakeven, Breakeven | None]:
    """In seconds and in dollars."""
    gpu, cpu = (curve for curve in curves if curve)
    seconds = break_even(sizes, gpu, cpu, [row.faster for row in rows] or None)
    if usd is None:
        return seconds, None
    gpu, cpu = gpu.scaled(usd[0]), cpu.scaled(usd[1])
    return seconds, break_even(sizes, gpu, cpu, [row.cheaper for row in rows] or None)


def _warm(target: TargetJobs, keys: Sequence[RowKey], noises: Sequence[SideNoise]) -> Curve:
    series = [target.series[key] for key in keys]
    deviations = [
        _unseen(
            math.log1p(noise.floor),
            noise.degrees,
            len(one.measured),
            resampled=noise.source == "repeats",
        )
        for one, noise in zip(series, noises, strict=True)
    ]
    curve = Curve.of([one.median for one in series if one.median])
    return curve.with_noise(deviations, seed=f"{target.name} {keys}")


def _unseen(log_sd: float, degrees: float | None, jobs: int, *, resampled: bool) -> float:
    """Log sd of a mean over jobs that resampling them leaves out.

    What a mean may be off by has Student's t for a scatter known with few degrees of freedom;
    resampling n jobs gives (n - 1) / n of their variance.
    """
    tail = (1 - CONFIDENCE) / 2
    wider = stats.t.isf(tail, degrees) / stats.norm.isf(tail) if degrees else 1.0
    given = (jobs - 1) / jobs if resampled else 0.0
    return log_sd * math.sqrt((wider**2 - given) / jobs)


def _cold(target: TargetJobs, keys: Sequence[RowKey]) -> Curve | None:
    found = [_one_call(target.series[key], target.name) for key in keys]
    known = [one for one in found if one]
    if len(known) < len(found):
        return None
    curve = Curve.of(known)
    jobs = min(one.samples.size for one in known)
    if curve.reason:
        there_are = "there is 1" if jobs == 1 else f"there are {jobs}"
        return curve._replace(reason=f"as it takes {MINIMUM_SAMPLES} jobs and {there_are}")
    deviations = [
        _unseen(log_spread(list(one.samples)), count - 1, count, resampled=True)
        for one in known
        for count in [one.samples.size]
    ]
    return curve.with_noise(deviations, seed=f"{target.name} one call")


def _one_call(series: Series, seed: str) -> Median | None:
    """Seconds of a job that makes this one call, a sample a job; None without marks.

    Rows of one target share their seed: start-up is common to them, so jobs are redrawn alike.
    """
    seconds = [_one_call_seconds(job, row) for job, row in series.measured]
    known = [[value] for value in seconds if value is not None]
    return Median(known, seed=seed) if known else None


def _one_call_seconds(job: CollectedJob, row: Measurement) -> float | None:
    marks = job.document.marks
    if not (marks and marks.device_ready_at and row.cold_seconds):
        return None
    startup = (marks.device_ready_at - marks.process_started_at).total_seconds()
    phases = row.phases or Phases()
    ways = (
        phases.allocate_seconds,
        phases.host_to_device_seconds,
        phases.device_to_host_seconds,
    )
    cold = max(row.cold_seconds, median(kept_samples(row)) + _first_use(job, row))
    return max(0.0, startup) + cold + sum(filter(None, ways))


def _first_use(job: CollectedJob, row: Measurement) -> float:
    """Seconds beyond a warm call that the row's code took when the job first called it.

    Libraries load then, so rows after the first don't show it in their own cold call.
    """
    first = next(
        one
        for one in job.document.measurements
        if one.status is MeasurementStatus.MEASURED
        and (one.workload, one.implementation) == (row.workload, row.implementation)
    )
    return (first.cold_seconds or 0.0) - median(kept_samples(first))
