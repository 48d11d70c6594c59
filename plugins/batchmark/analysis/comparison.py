"""What a run says of each GPU target against each CPU target, in time and in dollars.

Only rows that both targets measured are compared; all others are listed with the reason. Each
target's samples are pooled once, for its rows, whole jobs and crossovers alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

from pydantic import AwareDatetime, ConfigDict, Field

from batchmark.analysis.cold_start import ColdStart
from batchmark.analysis.cost import JobCost, PriceBasis, RunCost, run_costs, spot_factor
from batchmark.analysis.judging.noise import NoiseTable
from batchmark.analysis.notes import pair_notes, run_notices, summary
from batchmark.analysis.pairs.compared_rows import (
    SIGNS,
    Row,
    TotalTime,
    UncomparedRow,
    compare_row,
    total_time,
)
from batchmark.analysis.pairs.crossover import Crossover, RowVerdict, find_crossovers
from batchmark.analysis.pooling import Span, TargetRecord
from batchmark.analysis.samples import RowKey, row_key
from batchmark.analysis.sharing.curves import Place
from batchmark.analysis.sides import PricedTarget, priced_targets
from batchmark.analysis.studies import AnyStudy, Studies, find_studies, of_type
from batchmark.analysis.study import Study
from batchmark.core.formatting import target_label
from batchmark.core.prices import PriceTable
from batchmark.core.record import Record
from batchmark.core.row_values import ToldMetric
from batchmark.core.run import CollectedRun, LostJob
from batchmark.core.suites import SCALING

SPANS: tuple[Span, ...] = ("process", "batch_job")


class UsedCalibration(Record):
    """Which noise table a target's rows were held against; `runs/<run>/` keeps it."""

    target: str
    run_id: str
    created_at: AwareDatetime
    jobs: int

    @classmethod
    def of(cls, table: NoiseTable) -> UsedCalibration:
        return cls(**table.model_dump(include=set(cls.model_fields)))


class Pair(Record):
    """A GPU target against a CPU target on one suite and dtype."""

    model_config = ConfigDict(validate_by_name=True, serialize_by_alias=True)

    label: str
    suite: str
    dtype: str
    gpu: TargetRecord
    cpu: TargetRecord
    cpu_fallback: bool = Field(description="the GPU target's jobs ran on the CPU")
    refused: str | None = Field(description="why nothing in this pair is compared")
    rows: tuple[Row, ...]
    uncompared: tuple[UncomparedRow, ...]
    totals: tuple[TotalTime, ...]
    calibrations: tuple[UsedCalibration, ...] = Field(
        description="of the rows whose noise is known by calibration"
    )
    notes: tuple[str, ...]
    gpu_price: PriceBasis
    cpu_price: PriceBasis
    spot_factor: float | None = Field(
        description="efficiency at both targets' Spot prices, divided by that at On-Demand prices"
    )
    job_costs: tuple[JobCost, ...] = Field(description="the GPU target's jobs, then the CPU's")
    crossovers: tuple[Crossover, ...] = Field(description="none where no GPU was measured")
    cold_starts: tuple[ColdStart, ...] = Field(
        alias="ledgers", description="from submission to steady state, by target"
    )
    summary: str | None = Field(description="who is faster and who is cheaper, in how many rows")


class Comparison(Record):
    run_id: str
    notices: tuple[str, ...] = Field(description="to be read before any figure")
    pairs: tuple[Pair, ...]
    lost: tuple[LostJob, ...]
    prices: PriceTable = Field(description="of the instance types in the pairs and studies")
    cost: RunCost = Field(description="of all attempts of all jobs, as bought; lost ones last")
    studies: Studies = Field(default={}, description="of what asks no GPU against a CPU, by name")

    def of(self, kind: type[AnyStudy]) -> tuple[AnyStudy, ...]:
        """The studies of a kind."""
        return of_type(self.studies, kind)

    @property
    def targets(self) -> Iterator[TargetRecord]:
        """All of which anything is told, some more than once."""
        for pair in self.pairs:
            yield from (pair.gpu, pair.cpu)
        for study in self.of(Study):
            yield from (one.target for one in study.studied)


def compare(
    run: CollectedRun,
    prices: PriceTable,
    calibrations: Iterable[NoiseTable] = (),
    file_system_usd_per_hour: float | None = None,
) -> Comparison:
    """Compare every GPU target with every CPU target, for each suite and dtype.

    Several nodes that measure together are no such target: they have studies of their own. Own jobs
    have one beside their pairs, as their targets need not be a GPU and a CPU.

    A calibration is used in the environment that it was made in.
    """
    groups = priced_targets(run, prices, calibrations, file_system_usd_per_hour)
    cost = run_costs(run, prices)
    job_costs = {job.job_id: job for job in cost.jobs}
    pairs = tuple(
        _pair(gpu, cpu, job_costs)
        for group in groups
        for gpu in group
        for cpu in group
        if (gpu.pooled.device, cpu.pooled.device) == ("cuda", "cpu") and gpu.suite != SCALING
    )
    studies = find_studies(groups)
    found = Comparison(
        run_id=run.run_id,
        notices=tuple(run_notices(run, compared=bool(pairs or studies))),
        pairs=pairs,
        lost=run.lost,
        prices=prices,
        cost=cost,
        studies=studies,
    )
    compared = prices.only(target.instance_type for target in found.targets)
    return found.model_copy(update={"prices": compared})


def _pair(gpu: PricedTarget, cpu: PricedTarget, job_costs: Mapping[str | None, JobCost]) -> Pair:
    refused = gpu.refused or cpu.refused
    figures = _Figures() if refused else _Figures.of(gpu, cpu)
    return Pair(
        label=f"{target_label(gpu.pooled.name, fell_back=gpu.pooled.fell_back)} against "
        f"{cpu.pooled.name}",
        suite=gpu.suite,
        dtype=gpu.dtype,
        gpu=gpu.record,
        cpu=cpu.record,
        cpu_fallback=gpu.pooled.fell_back,
        refused=refused,
        **figures._asdict(),
        gpu_price=gpu.price,
        cpu_price=cpu.price,
        spot_factor=spot_factor(gpu.price, cpu.price),
        job_costs=tuple(job_costs[job.job_id] for job in (*gpu.record.jobs, *cpu.record.jobs)),
        crossovers=() if gpu.pooled.fell_back else _crossovers(gpu, cpu, figures.rows),
        cold_starts=tuple(filter(None, (gpu.cold_start, cpu.cold_start))),
        summary=summary(gpu.pooled, cpu.pooled, figures.rows),
    )


class _Figures(NamedTuple):
    """What two targets are compared in: nothing where a pair is refused."""

    rows: tuple[Row, ...] = ()
    uncompared: tuple[UncomparedRow, ...] = ()
    totals: tuple[TotalTime, ...] = ()
    calibrations: tuple[UsedCalibration, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, gpu: PricedTarget, cpu: PricedTarget) -> Self:
        keys = dict.fromkeys((*gpu.pooled.samples, *cpu.pooled.samples))
        found = [compare_row(key, gpu, cpu) for key in keys if not _is_apart(key)]
        rows = tuple(row for row in found if isinstance(row, Row))
        tables = (gpu.fitting_calibration, cpu.fitting_calibration)
        return cls(
            rows=rows,
            uncompared=tuple(row for row in found if isinstance(row, UncomparedRow)),
            totals=tuple(_totals(gpu, cpu)),
            calibrations=tuple(UsedCalibration.of(table) for table in tables if table),
            notes=tuple(pair_notes(gpu, cpu, rows)),
        )


def _totals(gpu: PricedTarget, cpu: PricedTarget) -> Iterator[TotalTime]:
    """None of own jobs: their rows are whole jobs, and of one size each."""
    if not any(job.document.own_job for job in (*gpu.pooled.jobs, *cpu.pooled.jobs)):
        for span in SPANS:
            yield total_time(span, gpu, cpu)


def _is_apart(key: RowKey) -> bool:
    """Whether a row is a metric, or a replica was made to fail, so that it is no target's time."""
    place = Place.of(dict(key[1]))
    disturbed = place is not None and place.disturbance is not None
    return disturbed or ToldMetric.of(dict(key[1])) is not None


def _crossovers(gpu: PricedTarget, cpu: PricedTarget, rows: Sequence[Row]) -> tuple[Crossover, ...]:
    verdicts = {
        row_key(row): RowVerdict(SIGNS[row.verdict], SIGNS[row.cheaper], row.noise)
        for row in rows
        if not Place.of(row.parameters)  # a number of replicas is no size
    }
    return find_crossovers(gpu.pooled, cpu.pooled, gpu.price, cpu.price, verdicts)
