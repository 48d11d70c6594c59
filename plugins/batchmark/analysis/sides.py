"""Pools, prices and judges a run's targets once, for use in all comparisons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from batchmark.analysis.cold_start import ColdStart, cold_start_of
from batchmark.analysis.cost import PriceBasis, price_basis
from batchmark.analysis.judging.noise import NoiseTable
from batchmark.analysis.judging.verdict import Contestant, Judgement, judge
from batchmark.analysis.pooling import TargetJobs, TargetRecord, group_jobs
from batchmark.analysis.samples import RowKey
from batchmark.core.names import target_order
from batchmark.core.prices import PriceTable
from batchmark.core.run import CollectedRun


@dataclass(frozen=True)
class PricedTarget:
    """A target's pooled jobs for one suite and dtype, with the price of its time."""

    suite: str
    dtype: str
    pooled: TargetJobs
    prices: PriceTable
    calibration: NoiseTable | None = None  # names the target, but may no longer fit
    file_system_usd_per_hour: float | None = None  # of the run's own file system; None if unknown
    _judged: dict[tuple[str, RowKey], Judgement] = field(default_factory=dict)

    @cached_property
    def record(self) -> TargetRecord:
        return self.pooled.record()

    @cached_property
    def refused(self) -> str | None:
        """The reason why the target can't be compared; None if it can."""
        return self.pooled.refusal()

    @cached_property
    def price(self) -> PriceBasis:
        return price_basis(self.record, self.prices)

    @cached_property
    def cold_start(self) -> ColdStart | None:
        return cold_start_of(self.record, self.price)

    @cached_property
    def fitting_calibration(self) -> NoiseTable | None:
        """The calibration, or None if there is none or anything relevant has changed since."""
        if self.calibration is None or self.calibration.changes_since(self.pooled):
            return None
        return self.calibration

    def against(self, other: PricedTarget, key: RowKey) -> Judgement:
        """Judge which target is faster on a row that both measured.

        The verdict is undecided if a GPU target ran on the CPU and both have the same CPU.
        """
        asked = other.pooled.name, key
        if asked not in self._judged:
            found = judge(self._contestant(key), other._contestant(key))
            if model := _same_cpu(self.pooled, other.pooled):
                note = f"not comparable: both ran on the same CPU, {model}"
                noise = found.noise.model_copy(update={"note": note})
                found = replace(found, faster=None, noise=noise, same_cpu=model)
            self._judged[asked] = found
        return self._judged[asked]

    def _contestant(self, key: RowKey) -> Contestant:
        samples, table = self.pooled.samples[key], self.fitting_calibration
        return Contestant(self.pooled.name, samples, table.find(samples) if table else None)


def priced_targets(
    run: CollectedRun,
    prices: PriceTable,
    calibrations: Iterable[NoiseTable] = (),
    file_system_usd_per_hour: float | None = None,
) -> list[list[PricedTarget]]:
    """Return a run's targets, grouped by suite and dtype and in the standard target order.

    A calibration applies only to the target, suite and dtype that it names.
    """
    tables = {(table.suite, table.dtype, table.target): table for table in calibrations}
    return [
        [
            PricedTarget(
                suite,
                dtype,
                target,
                prices,
                tables.get((suite, dtype, target.name)),
                file_system_usd_per_hour,
            )
            for target in sorted(targets, key=lambda one: target_order(one.name))
        ]
        for (suite, dtype), targets in group_jobs(run).items()
    ]


def _same_cpu(first: TargetJobs, second: TargetJobs) -> str | None:
    """Return the CPU model that both ran on if one is a GPU target that fell back, else None."""
    ours, theirs = first.jobs[0].document, second.jobs[0].document
    model = ours.environment.cpu_model
    fell_back = first.fell_back or second.fell_back
    on_cpus = ours.actual_device is theirs.actual_device  # the other may have used its GPU
    is_same = model == theirs.environment.cpu_model and ours.target != theirs.target
    return model if fell_back and on_cpus and is_same else None
