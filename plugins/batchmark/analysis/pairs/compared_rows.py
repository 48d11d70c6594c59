"""Compares a GPU target's and a CPU target's rows and whole jobs by speed and cost.

Durations are in seconds. A speedup is CPU time / GPU time, and an efficiency is a speedup weighted
by both prices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field

from batchmark.analysis.cost import (
    Efficiency,
    PriceBasis,
    efficiency,
    usd_per_job,
    usd_per_million_calls,
)
from batchmark.analysis.judging.noise import RowName, RowNoise
from batchmark.analysis.owners_checks import OUTPUTS_DIFFER
from batchmark.analysis.pairs.crossover import calls_until_gpu_pays
from batchmark.analysis.pooling import Span, TargetJobs
from batchmark.analysis.samples import Provenance, RowKey, RowSamples, Side
from batchmark.analysis.sides import PricedTarget
from batchmark.core.intervals import Estimate, ratio
from batchmark.core.record import Record
from batchmark.core.row_values import ToldMetric
from batchmark_job.result.document import Measurement

Faster = Literal["gpu_target_faster", "cpu_target_faster", "undecided"]
Cheaper = Literal["gpu_target_cheaper", "cpu_target_cheaper", "undecided"]
CHEAPER: Mapping[Literal["first", "second"] | None, Cheaper] = {
    "first": "gpu_target_cheaper",
    "second": "cpu_target_cheaper",
    None: "undecided",
}
FASTER: Mapping[Literal["first", "second"] | None, Faster] = {
    "first": "gpu_target_faster",
    "second": "cpu_target_faster",
    None: "undecided",
}
SIGNS: Mapping[Faster | Cheaper | None, int] = {
    "gpu_target_faster": 1,
    "cpu_target_faster": -1,
    "gpu_target_cheaper": 1,
    "cpu_target_cheaper": -1,
    "undecided": 0,
    None: 0,
}


class Row(RowName):
    """A grid point that both targets measured."""

    gpu: Side
    cpu: Side
    speedup: Estimate
    verdict: Faster = Field(
        description="undecided if the interval contains 1 or is missing, if job-to-job noise could "
        "explain the difference, or if both ran on the same CPU"
    )
    same_cpu: str | None = Field(
        default=None,
        description="model of the CPU on which both targets ran, if the GPU target fell back to it",
    )
    noise: RowNoise
    warnings: tuple[str, ...] = ()
    efficiency: Efficiency
    cheaper: Cheaper | None = Field(
        description="judged like the time; null if there is no efficiency or the GPU target's "
        "jobs ran on the CPU"
    )
    gpu_usd_per_million_calls: Estimate | None = None
    cpu_usd_per_million_calls: Estimate | None = None
    gpu_usd_per_job: Estimate | None = Field(
        default=None,
        description="used instead of gpu_usd_per_million_calls if the row is a user's own job",
    )
    cpu_usd_per_job: Estimate | None = Field(default=None, description="like gpu_usd_per_job")
    calls_until_gpu_pays: int | None = Field(
        description="number of calls at which a GPU job starts to take less time than a CPU "
        "job, both timed from process start; null unless the GPU target is faster"
    )

    @property
    def gpu_usd(self) -> Estimate | None:
        """The GPU cost per million calls, or per job if the row is a whole job."""
        return self.gpu_usd_per_job or self.gpu_usd_per_million_calls

    @property
    def cpu_usd(self) -> Estimate | None:
        """The CPU cost per million calls, or per job if the row is a whole job."""
        return self.cpu_usd_per_job or self.cpu_usd_per_million_calls


class UncomparedRow(RowName):
    """A grid point for which at least one target has no valid figure."""

    reason: str
    gpu: Side | None
    cpu: Side | None
    gpu_provenance: tuple[Provenance, ...]
    cpu_provenance: tuple[Provenance, ...]


class TotalTime(Record):
    """The durations of whole jobs, including start-up, inputs, first calls and all samples."""

    span: Span = Field(
        description="process: from process start until the result document is complete; "
        "batch_job: from startedAt to stoppedAt"
    )
    gpu_seconds: Estimate | None
    cpu_seconds: Estimate | None
    speedup: Estimate | None
    reason: str | None = Field(default=None, description="why there is no speedup")
    efficiency: Efficiency


def compare_row(key: RowKey, gpu: PricedTarget, cpu: PricedTarget) -> Row | UncomparedRow:
    """Compare both targets' samples for a row, or return why they can't be compared."""
    gpu_samples = gpu.pooled.samples.get(key, RowSamples())
    cpu_samples = cpu.pooled.samples.get(key, RowSamples())
    sides = (gpu.pooled.name, gpu_samples), (cpu.pooled.name, cpu_samples)
    gpu_side = None if gpu_samples.problem else gpu_samples.side
    cpu_side = None if cpu_samples.problem else cpu_samples.side
    known = gpu_samples if key in gpu.pooled.samples else cpu_samples
    name = RowName.of(known.row).model_dump()
    if not (gpu_side and cpu_side):
        return UncomparedRow(
            **name,
            reason=_reason(sides),
            gpu=gpu_side,
            cpu=cpu_side,
            gpu_provenance=gpu_samples.provenance,
            cpu_provenance=cpu_samples.provenance,
        )
    judged = gpu.against(cpu, key)
    speedup = judged.ratio
    weighed = efficiency(speedup, gpu.price, cpu.price)
    if ToldMetric.of(known.row.parameters):
        weighed = Efficiency(estimate=None, reason="a metric has no price")
    cheaper = calls = None
    if weighed.estimate and not gpu.pooled.fell_back:
        cheaper = CHEAPER[cheaper_of_two(speedup, judged.noise, weighed.estimate)]
    if judged.faster == "first" and not (known.row.sharing or known.row.scaling or known.row.check):
        calls = calls_until_gpu_pays(gpu_samples, cpu_samples)
    return Row(
        **name,
        gpu=gpu_side,
        cpu=cpu_side,
        speedup=speedup,
        verdict=FASTER[judged.faster],
        same_cpu=judged.same_cpu,
        noise=judged.noise,
        warnings=tuple(f"{one}: {told.text}" for one, of in sides for told in of.warnings()),
        efficiency=weighed,
        cheaper=cheaper,
        calls_until_gpu_pays=calls,
        **_dollars("gpu", gpu_samples.row, gpu_side, gpu.price),
        **_dollars("cpu", cpu_samples.row, cpu_side, cpu.price),
    )


def _reason(sides: Iterable[tuple[str, RowSamples]]) -> str:
    """Say why sides can't be compared; what concerns both of them is said once."""
    found = ((name, samples.problem) for name, samples in sides)
    reasons = (
        problem if problem.startswith(OUTPUTS_DIFFER) else f"{name}: {problem}"
        for name, problem in found
        if problem
    )
    return "; ".join(dict.fromkeys(reasons))


def total_time(span: Span, gpu: PricedTarget, cpu: PricedTarget) -> TotalTime:
    """Compare how long the two targets' whole jobs took."""
    gpu_median, cpu_median = gpu.pooled.total(span), cpu.pooled.total(span)
    speedup = None
    reason = _different_work(gpu.pooled, cpu.pooled) or _different_work(cpu.pooled, gpu.pooled)
    if not (gpu_median and cpu_median):
        reason = "a target has no complete job"
    elif not reason:
        speedup = ratio(cpu_median, gpu_median)
    return TotalTime(
        span=span,
        gpu_seconds=gpu_median and gpu_median.estimate(),
        cpu_seconds=cpu_median and cpu_median.estimate(),
        speedup=speedup,
        reason=reason,
        efficiency=efficiency(speedup, gpu.price, cpu.price),
    )


def cheaper_of_two(
    speedup: Estimate, noise: RowNoise, weighed: Estimate
) -> Literal["first", "second"] | None:
    """Decide which target is cheaper, unless chance or noise explains the difference.

    Args:
        speedup: the second target's time / the first's.
        noise: the noise that the speedup was judged against.
        weighed: the speedup weighted by both prices.
    """
    lead = noise.lead + math.log(weighed.value / speedup.value)
    if weighed.interval is None or abs(lead) <= math.log1p(noise.critical_change):
        return None
    if lead > 0:
        return "first" if weighed.interval.low > 1 else None
    return "second" if weighed.interval.high < 1 else None


def _dollars(name: str, row: Measurement, side: Side, price: PriceBasis) -> dict[str, Any]:
    """Return a side's cost fields; a multi-node job pays for all its nodes."""
    if ToldMetric.of(row.parameters):
        return {}
    if row.check:
        return {f"{name}_usd_per_job": usd_per_job(side.median_seconds, price)}
    usd = usd_per_million_calls(side.median_seconds, price)
    if usd and row.scaling:
        usd = usd.scaled(len(row.scaling.nodes))
    return {f"{name}_usd_per_million_calls": usd}


def _different_work(target: TargetJobs, other: TargetJobs) -> str | None:
    """Return why whole jobs can't be compared if `target` measured rows that `other` lacks."""
    measured = {key for key, samples in target.samples.items() if samples.measured}
    complete = {
        key for key, samples in other.samples.items() if samples.measured and not samples.unmeasured
    }
    if extra := len(measured - complete):
        rows = "a row" if extra == 1 else f"{extra} rows"
        return (
            f"{target.name} measured {rows} that {other.name} did not, so their jobs aren't "
            "comparable"
        )
    return None
