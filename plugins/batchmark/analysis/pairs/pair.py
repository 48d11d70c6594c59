"""Compares a GPU target with a CPU target: rows, whole jobs, crossovers and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import AwareDatetime, ConfigDict, Field

from batchmark.analysis.cold_start import ColdStart
from batchmark.analysis.cost import JobCost, PriceBasis, spot_factor
from batchmark.analysis.judging.noise import NoiseTable
from batchmark.analysis.pairs.compared_rows import (
    SIGNS,
    Row,
    TotalTime,
    UncomparedRow,
    compare_row,
    total_time,
)
from batchmark.analysis.pairs.crossover import Crossover, RowVerdict, find_crossovers
from batchmark.analysis.pairs.notes import pair_notes, summary
from batchmark.analysis.pooling import Span, TargetRecord
from batchmark.analysis.samples import RowKey, row_key
from batchmark.analysis.sharing.curves import Place
from batchmark.analysis.sides import PricedTarget
from batchmark.core.formatting import target_label
from batchmark.core.record import Record
from batchmark.core.row_values import ToldMetric
from batchmark.core.suites import SCALING

SPANS: tuple[Span, ...] = ("process", "batch_job")


class UsedCalibration(Record):
    """The identity of a noise table used to judge a target's rows; `runs/<run>/` holds a copy."""

    target: str
    run_id: str
    created_at: AwareDatetime
    jobs: int

    @classmethod
    def of(cls, table: NoiseTable) -> UsedCalibration:
        return cls(**table.model_dump(include=set(cls.model_fields)))


class Pair(Record):
    """A comparison of a GPU target with a CPU target on one suite and dtype."""

    model_config = ConfigDict(validate_by_name=True, serialize_by_alias=True)

    label: str
    suite: str
    dtype: str
    gpu: TargetRecord
    cpu: TargetRecord
    cpu_fallback: bool = Field(description="whether a job of the GPU target ran on the CPU")
    refused: str | None = Field(description="why this pair was not compared")
    rows: tuple[Row, ...]
    uncompared: tuple[UncomparedRow, ...]
    totals: tuple[TotalTime, ...]
    calibrations: tuple[UsedCalibration, ...] = Field(
        description="noise tables used for the pair's rows"
    )
    notes: tuple[str, ...]
    gpu_price: PriceBasis
    cpu_price: PriceBasis
    spot_factor: float | None = Field(
        description="efficiency at both targets' Spot prices divided by efficiency at their "
        "On-Demand prices"
    )
    job_costs: tuple[JobCost, ...] = Field(
        description="costs of the GPU target's jobs, then of the CPU target's jobs"
    )
    crossovers: tuple[Crossover, ...] = Field(description="empty if no GPU was measured")
    cold_starts: tuple[ColdStart, ...] = Field(
        alias="ledgers", description="time and cost from submission to steady state, by target"
    )
    summary: str | None = Field(
        description="sentence that says in how many rows each target is faster or cheaper"
    )


def find_pairs(
    groups: Sequence[Sequence[PricedTarget]], job_costs: Mapping[str | None, JobCost]
) -> tuple[Pair, ...]:
    """Pair every GPU target with every CPU target, for each suite and dtype.

    Multi-node targets are not paired.
    """
    return tuple(
        _pair(gpu, cpu, job_costs)
        for group in groups
        for gpu in group
        for cpu in group
        if (gpu.pooled.device, cpu.pooled.device) == ("cuda", "cpu") and gpu.suite != SCALING
    )


def _pair(gpu: PricedTarget, cpu: PricedTarget, job_costs: Mapping[str | None, JobCost]) -> Pair:
    refused = gpu.refused or cpu.refused
    keys = () if refused else dict.fromkeys((*gpu.pooled.samples, *cpu.pooled.samples))
    found = [compare_row(key, gpu, cpu) for key in keys if not _is_excluded(key)]
    rows = tuple(row for row in found if isinstance(row, Row))
    # Rows of users' own jobs are whole jobs, and of one size each.
    own_jobs = any(job.document.own_job for job in (*gpu.pooled.jobs, *cpu.pooled.jobs))
    spans = () if refused or own_jobs else SPANS
    tables = () if refused else (gpu.fitting_calibration, cpu.fitting_calibration)
    return Pair(
        label=f"{target_label(gpu.pooled.name, fell_back=gpu.pooled.fell_back)} against "
        f"{cpu.pooled.name}",
        suite=gpu.suite,
        dtype=gpu.dtype,
        gpu=gpu.record,
        cpu=cpu.record,
        cpu_fallback=gpu.pooled.fell_back,
        refused=refused,
        rows=rows,
        uncompared=tuple(row for row in found if isinstance(row, UncomparedRow)),
        totals=tuple(total_time(span, gpu, cpu) for span in spans),
        calibrations=tuple(UsedCalibration.of(table) for table in tables if table),
        notes=() if refused else tuple(pair_notes(gpu, cpu, rows)),
        gpu_price=gpu.price,
        cpu_price=cpu.price,
        spot_factor=spot_factor(gpu.price, cpu.price),
        job_costs=tuple(job_costs[job.job_id] for job in (*gpu.record.jobs, *cpu.record.jobs)),
        crossovers=() if gpu.pooled.fell_back else _crossovers(gpu, cpu, rows),
        cold_starts=tuple(filter(None, (gpu.cold_start, cpu.cold_start))),
        summary=summary(gpu.pooled, cpu.pooled, rows),
    )


def _is_excluded(key: RowKey) -> bool:
    """Check whether a row is a metric or a disturbance test rather than an ordinary timing."""
    place = Place.of(dict(key[1]))
    disturbed = place is not None and place.disturbance is not None
    return disturbed or ToldMetric.of(dict(key[1])) is not None


def _crossovers(gpu: PricedTarget, cpu: PricedTarget, rows: Sequence[Row]) -> tuple[Crossover, ...]:
    verdicts = {
        row_key(row): RowVerdict(SIGNS[row.verdict], SIGNS[row.cheaper], row.noise)
        for row in rows
        if not Place.of(row.parameters)  # a replica count isn't a size
    }
    return find_crossovers(gpu, cpu, verdicts)
