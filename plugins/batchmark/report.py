"""The report of a run: the comparison with costs, crossovers and the ledger of cold starts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal

from pydantic import AwareDatetime, Field

from batchmark.comparison import Comparison, Pair, Row, TotalTime
from batchmark.cost import (
    Cost,
    Efficiency,
    JobCost,
    PriceBasis,
    efficiency,
    job_cost,
    price_basis,
    run_cost,
    usd_per_million_calls,
)
from batchmark.crossover import Crossover, calls_until_gpu_pays, find_crossovers
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

# History of the report's JSON, newest first.
#   2  (2026-11) crossovers, ledgers, noise, roofline and flags of rows, rivals' trials, telemetry
#   1  (2026-11) first version
REPORT_VERSION: Final = 2

SPREAD_ADVICE = (
    "Some rows spread widely: run them again with nothing else on the machine, or with more "
    "repeats."
)


class ReportRow(Row):
    efficiency: Efficiency
    gpu_usd_per_million_calls: Estimate | None
    cpu_usd_per_million_calls: Estimate | None
    calls_until_gpu_pays: int | None = Field(
        description="calls in one job from which the GPU's takes less time, start-up included"
    )


class ReportTotal(TotalTime):
    efficiency: Efficiency


class ReportPair(Pair):
    """A pair with its costs."""

    rows: tuple[ReportRow, ...]
    totals: tuple[ReportTotal, ...]
    gpu_price: PriceBasis
    cpu_price: PriceBasis
    job_costs: tuple[JobCost, ...]
    crossovers: tuple[Crossover, ...] = Field(description="none where no GPU was measured")
    ledgers: tuple[Ledger, ...] = Field(description="from submission to steady state, by target")
    summary: str | None = Field(description="who is faster and who is cheaper, in how many rows")


class Report(Record):
    report_version: Literal[2] = REPORT_VERSION
    notices: tuple[str, ...] = Field(description="to be read before any figure")
    run_id: str
    created_at: AwareDatetime
    pairs: tuple[ReportPair, ...]
    lost: tuple[LostJob, ...]
    prices: PriceTable
    cost: Cost = Field(description="of all jobs with a result")


def build_report(
    comparison: Comparison,
    run: CollectedRun,
    *,
    prices: PriceTable | None = None,
    created_at: datetime | None = None,
) -> Report:
    """Add to a run's comparison what prices and the jobs' own records tell.

    Args:
        run: what the comparison was made of.
        prices: None for those of the committed table.
    """
    prices = prices or load_prices()
    groups = {key: {one.name: one for one in targets} for key, targets in group_jobs(run).items()}
    pairs = tuple(
        _report_pair(pair, groups[pair.suite, pair.dtype], prices) for pair in comparison.pairs
    )
    costs = {cost.job_id: cost for pair in pairs for cost in pair.job_costs}
    used = (basis.instance_type for pair in pairs for basis in (pair.gpu_price, pair.cpu_price))
    return Report(
        notices=comparison.notices,
        run_id=comparison.run_id,
        created_at=created_at or datetime.now(UTC),
        pairs=pairs,
        lost=comparison.lost,
        prices=prices.only(used),
        cost=run_cost(costs.values(), len(comparison.lost)),
    )


def render_json(report: Report) -> str:
    return report.model_dump_json(indent=2) + "\n"


def _report_pair(pair: Pair, targets: Mapping[str, TargetJobs], prices: PriceTable) -> ReportPair:
    gpu_price, cpu_price = price_basis(pair.gpu, prices), price_basis(pair.cpu, prices)
    gpu, cpu = targets[pair.gpu.target], targets[pair.cpu.target]
    rows = tuple(_report_row(row, pair, gpu, cpu, gpu_price, cpu_price) for row in pair.rows)
    totals = tuple(
        ReportTotal(**_fields(total), efficiency=efficiency(total.speedup, gpu_price, cpu_price))
        for total in pair.totals
    )
    floors = {row_key(row): row.noise.floor or 0.0 for row in rows}
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
        job_costs=tuple(
            job_cost(job, target, prices) for target in (pair.gpu, pair.cpu) for job in target.jobs
        ),
        crossovers=()
        if pair.cpu_fallback
        else find_crossovers(gpu, cpu, gpu_price, cpu_price, floors),
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
    calls = None if pair.cpu_fallback else calls_until_gpu_pays(gpu.series[key], cpu.series[key])
    return ReportRow(
        **_fields(row),
        efficiency=efficiency(row.speedup, gpu_price, cpu_price),
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
    if any(row.efficiency.estimate for row in rows):
        cheaper = [_cheaper(row) for row in rows]
        parts.append(count("cheaper", cheaper.count("gpu"), cheaper.count("cpu")))
    return f"Of {len(rows)} row{'' if len(rows) == 1 else 's'}, {'; '.join(parts)}."


def _cheaper(row: ReportRow) -> Literal["gpu", "cpu"] | None:
    """By the rule of the verdict on time: neither chance nor noise explains it."""
    weighed = row.efficiency.estimate
    if weighed is None or weighed.interval is None:
        return None
    explained = 1 + row.noise.critical_change
    if weighed.interval.low > 1 and weighed.value > explained:
        return "gpu"
    return "cpu" if weighed.interval.high < 1 and weighed.value < 1 / explained else None
