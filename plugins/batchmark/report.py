"""The report of a run: the comparison with costs, crossovers and the ledger of cold starts."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal

from pydantic import AwareDatetime, Field

from batchmark.changes_section import AlertBoard, ChangesSection
from batchmark.comparison import Comparison, Pair, Row, TotalTime, Verdict
from batchmark.cost import (
    Efficiency,
    JobCost,
    PriceBasis,
    RunCost,
    efficiency,
    price_basis,
    run_costs,
    spot_factor,
    usd_per_million_calls,
)
from batchmark.crossover import Crossover, RowVerdict, calls_until_gpu_pays, find_crossovers
from batchmark.estimate import Estimate
from batchmark.ledger import Ledger, ledger_of
from batchmark.pooling import TargetJobs, group_jobs
from batchmark.prices import PriceTable, load_prices
from batchmark.record import Record
from batchmark.run import LostJob
from batchmark.series import WIDE_SPREAD, row_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from batchmark.run import CollectedRun

# History of the report's JSON, newest first. A report of version 2 is read as one of version 3.
#   3  (2026-12) what changed against the history, and alerts
#   2  (2026-11) crossovers, ledgers, noise, roofline and flags of rows, rivals' trials, telemetry
#   1  (2026-11) first version
REPORT_VERSION: Final = 3

SPREAD_ADVICE = (
    "Some rows spread widely: run them again with nothing else on the machine, or with more "
    "repeats."
)


Cheaper = Literal["gpu_target_cheaper", "cpu_target_cheaper", "undecided"]
SIGNS: Mapping[Verdict | Cheaper | None, int] = {
    "gpu_target_faster": 1,
    "cpu_target_faster": -1,
    "gpu_target_cheaper": 1,
    "cpu_target_cheaper": -1,
    "undecided": 0,
    None: 0,
}


class ReportRow(Row):
    efficiency: Efficiency
    cheaper: Cheaper | None = Field(
        description="by the rule of the verdict on time; null without an efficiency"
    )
    gpu_usd_per_million_calls: Estimate | None
    cpu_usd_per_million_calls: Estimate | None
    calls_until_gpu_pays: int | None = Field(
        description="calls in one job from which the GPU's takes less time, counted from its "
        "process's start; only where the GPU target is faster"
    )


class ReportTotal(TotalTime):
    efficiency: Efficiency


class ReportPair(Pair):
    """A pair with its costs."""

    rows: tuple[ReportRow, ...]
    totals: tuple[ReportTotal, ...]
    gpu_price: PriceBasis
    cpu_price: PriceBasis
    spot_factor: float | None = Field(
        description="efficiency at both targets' Spot prices, divided by that at On-Demand prices"
    )
    job_costs: tuple[JobCost, ...]
    crossovers: tuple[Crossover, ...] = Field(description="none where no GPU was measured")
    ledgers: tuple[Ledger, ...] = Field(description="from submission to steady state, by target")
    summary: str | None = Field(description="who is faster and who is cheaper, in how many rows")


class Report(Record):
    report_version: Literal[2, 3] = REPORT_VERSION
    notices: tuple[str, ...] = Field(description="to be read before any figure")
    run_id: str
    created_at: AwareDatetime
    pairs: tuple[ReportPair, ...]
    lost: tuple[LostJob, ...]
    prices: PriceTable
    cost: RunCost = Field(description="of all attempts of all jobs, as bought; lost ones last")
    changes: ChangesSection | None = Field(
        default=None, description="null where the history was not looked at"
    )
    alerts: AlertBoard | None = Field(default=None, description="null where none were read")

    @property
    def fell_back(self) -> set[str]:
        """GPU targets whose jobs ran on the CPU."""
        return {pair.gpu.target for pair in self.pairs if pair.cpu_fallback}

    @property
    def lost_costs(self) -> tuple[JobCost, ...]:
        """In the order of `lost`."""
        return self.cost.jobs[len(self.cost.jobs) - len(self.lost) :]


def build_report(
    comparison: Comparison,
    run: CollectedRun,
    *,
    prices: PriceTable | None = None,
    created_at: datetime | None = None,
    changes: ChangesSection | None = None,
    alerts: AlertBoard | None = None,
) -> Report:
    """Add to a run's comparison what prices and the jobs' own records tell.

    Args:
        run: what the comparison was made of.
        prices: None for those of the committed table.
        changes, alerts: None where there is no history to look at.
    """
    created_at = created_at or datetime.now(UTC)
    prices = prices or load_prices().without_old_spot(created_at)
    groups = {key: {one.name: one for one in targets} for key, targets in group_jobs(run).items()}
    cost = run_costs(run, prices)
    costs = {one.job_id: one for one in cost.jobs}
    pairs = tuple(
        _report_pair(pair, groups[pair.suite, pair.dtype], prices, costs)
        for pair in comparison.pairs
    )
    used = (basis.instance_type for pair in pairs for basis in (pair.gpu_price, pair.cpu_price))
    return Report(
        notices=comparison.notices,
        run_id=comparison.run_id,
        created_at=created_at,
        pairs=pairs,
        lost=comparison.lost,
        prices=prices.only(used),
        cost=cost,
        changes=changes,
        alerts=alerts,
    )


def render_json(report: Report) -> str:
    return report.model_dump_json(indent=2) + "\n"


def _report_pair(
    pair: Pair,
    targets: Mapping[str, TargetJobs],
    prices: PriceTable,
    costs: Mapping[str | None, JobCost],
) -> ReportPair:
    gpu_price, cpu_price = price_basis(pair.gpu, prices), price_basis(pair.cpu, prices)
    gpu, cpu = targets[pair.gpu.target], targets[pair.cpu.target]
    rows = tuple(_report_row(row, pair, gpu, cpu, gpu_price, cpu_price) for row in pair.rows)
    totals = tuple(
        ReportTotal(**_fields(total), efficiency=efficiency(total.speedup, gpu_price, cpu_price))
        for total in pair.totals
    )
    verdicts = {
        row_key(row): RowVerdict(SIGNS[row.verdict], SIGNS[row.cheaper], row.noise) for row in rows
    }
    ledgers = (ledger_of(pair.gpu, gpu_price), ledger_of(pair.cpu, cpu_price))
    wide = any(
        side.relative_spread and side.relative_spread > WIDE_SPREAD
        for row in rows
        for side in (row.gpu, row.cpu)
    )
    fields = _fields(pair) | {
        "rows": rows,
        "totals": totals,
        "notes": (*pair.notes, SPREAD_ADVICE) if wide else pair.notes,
    }
    return ReportPair(
        **fields,
        gpu_price=gpu_price,
        cpu_price=cpu_price,
        spot_factor=spot_factor(gpu_price, cpu_price),
        job_costs=tuple(costs[job.job_id] for job in (*pair.gpu.jobs, *pair.cpu.jobs)),
        crossovers=()
        if pair.cpu_fallback
        else find_crossovers(gpu, cpu, gpu_price, cpu_price, verdicts),
        ledgers=tuple(ledger for ledger in ledgers if ledger),
        summary=_summary(pair, rows),
    )


def _report_row(
    row: Row,
    pair: Pair,
    gpu: TargetJobs,
    cpu: TargetJobs,
    gpu_price: PriceBasis,
    cpu_price: PriceBasis,
) -> ReportRow:
    key = row_key(row)
    calls = None
    if row.verdict == "gpu_target_faster":
        calls = calls_until_gpu_pays(gpu.series[key], cpu.series[key])
    weighed = efficiency(row.speedup, gpu_price, cpu_price)
    return ReportRow(
        **_fields(row),
        efficiency=weighed,
        cheaper=None if pair.cpu_fallback else _cheaper(row, weighed),
        gpu_usd_per_million_calls=usd_per_million_calls(row.gpu.median_seconds, gpu_price),
        cpu_usd_per_million_calls=usd_per_million_calls(row.cpu.median_seconds, cpu_price),
        calls_until_gpu_pays=calls,
    )


def _fields(record: Record) -> dict[str, object]:
    return {name: getattr(record, name) for name in type(record).model_fields}


def _summary(pair: Pair, rows: Sequence[ReportRow]) -> str | None:
    if not rows:
        return None
    if pair.cpu_fallback:
        return (
            "Both targets ran on a CPU: neither speedup nor efficiency says anything about a GPU."
        )
    gpu, cpu = pair.gpu.target, pair.cpu.target

    def count(word: str, gpu_rows: int, cpu_rows: int) -> str:
        text = f"{word}: {gpu} in {gpu_rows}, {cpu} in {cpu_rows}"
        undecided = len(rows) - gpu_rows - cpu_rows
        return f"{text} ({undecided} undecided)" if undecided else text

    verdicts = [row.verdict for row in rows]
    parts = [
        count("faster", verdicts.count("gpu_target_faster"), verdicts.count("cpu_target_faster"))
    ]
    cheaper = [row.cheaper for row in rows]
    if any(cheaper):
        parts.append(
            count(
                "cheaper",
                cheaper.count("gpu_target_cheaper"),
                cheaper.count("cpu_target_cheaper"),
            )
        )
    return f"Of {len(rows)} row{'' if len(rows) == 1 else 's'}, {'; '.join(parts)}."


def _cheaper(row: Row, weighed: Efficiency) -> Cheaper | None:
    """By the rule of the verdict on time: neither chance nor noise explains it."""
    if (estimate := weighed.estimate) is None:
        return None
    lead = row.noise.lead + math.log(estimate.value / row.speedup.value)
    if estimate.interval is None or abs(lead) <= math.log1p(row.noise.critical_change):
        return "undecided"
    if lead > 0:
        return "gpu_target_cheaper" if estimate.interval.low > 1 else "undecided"
    return "cpu_target_cheaper" if estimate.interval.high < 1 else "undecided"
