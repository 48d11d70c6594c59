"""The sizes from which a GPU target pays, in time and in dollars, warm and cold.

Warm costs are medians of warm calls. Cold ones are those of a job that makes one call: from the
start of its process until the device is ready, then the inputs' way in, the first call and the
output's way out. What comes before the process is in the ledger.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from pydantic import Field

from batchmark.break_even import Breakeven, Curve, break_even
from batchmark.estimate import MINIMUM_SAMPLES, Median
from batchmark.record import Record
from batchmark.significance import ENOUGH_REPEATS
from batchmark_job.result import Parameter, Phases

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from batchmark.cost import PriceBasis
    from batchmark.pooling import TargetJobs
    from batchmark.run import CollectedJob
    from batchmark.series import RowKey, Series
    from batchmark_job.result import Measurement

NO_MARKS = "no job says when its device was ready"


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
    floors: Mapping[RowKey, float],
) -> tuple[Crossover, ...]:
    """One for each workload, dtype and axis with two compared sizes or more.

    Args:
        floors: the rows compared, each with its relative sd from job to job. It widens the interval
            where a target has too few jobs to tell by themselves.
    """
    usd = None
    if gpu_price.usd_per_hour is not None and cpu_price.usd_per_hour is not None:
        usd = gpu_price.usd_per_hour, cpu_price.usd_per_hour
    found = []
    for axis, keys in _lines(floors):
        sizes = [float(dict(key[1])[axis]) for key in keys]
        warm = [_warm(target, keys, floors) for target in (gpu, cpu)]
        cold = [_cold(target, keys) for target in (gpu, cpu)]
        workload, parameters, dtype = keys[0]
        missing = [target.name for target, curve in zip((gpu, cpu), cold, strict=True) if not curve]
        warm_seconds, warm_usd = _both(sizes, warm, usd)
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
    """Calls of a row in one job from which the GPU's job takes less time, start-up included.

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
    sizes: Sequence[float], curves: Sequence[Curve | None], usd: tuple[float, float] | None
) -> tuple[Breakeven, Breakeven | None]:
    """In seconds and in dollars."""
    gpu, cpu = (curve for curve in curves if curve)
    seconds = break_even(sizes, gpu, cpu)
    if usd is None:
        return seconds, None
    return seconds, break_even(sizes, gpu.scaled(usd[0]), cpu.scaled(usd[1]))


def _warm(target: TargetJobs, keys: Sequence[RowKey], floors: Mapping[RowKey, float]) -> Curve:
    series = [target.series[key] for key in keys]
    deviations = [_own_noise(one, floors[key]) for key, one in zip(keys, series, strict=True)]
    curve = Curve.of([one.median for one in series if one.median])
    return curve.with_noise(deviations, seed=f"{target.name} {keys}")


def _own_noise(series: Series, floor: float) -> float:
    """Log sd that the bootstrap over a series' jobs leaves out."""
    jobs = len(series.measured)
    return 0.0 if jobs >= ENOUGH_REPEATS else math.log1p(floor) / math.sqrt(jobs)


def _cold(target: TargetJobs, keys: Sequence[RowKey]) -> Curve | None:
    medians = [_one_call(target.series[key], target.name) for key in keys]
    known = [median for median in medians if median]
    if len(known) < len(medians):
        return None
    curve = Curve.of(known)
    jobs = min(median.samples.size for median in known)
    reason = (
        f"as it takes {MINIMUM_SAMPLES} jobs and there {'is 1' if jobs == 1 else f'are {jobs}'}"
    )
    return curve._replace(reason=curve.reason and reason)


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
    return max(0.0, startup) + row.cold_seconds + sum(filter(None, ways))
