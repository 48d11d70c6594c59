"""The report of a run: as JSON, as one HTML page and as a table on the terminal."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from jinja2 import Environment as TemplateEnvironment
from jinja2 import FileSystemLoader, StrictUndefined
from pydantic import AwareDatetime, Field
from rich import box
from rich.table import Table
from rich.text import Text

from batchmark import figures
from batchmark.comparison import Comparison, Pair, Row, TotalTime
from batchmark.cost import (
    Cost,
    Efficiency,
    JobCost,
    PriceBasis,
    PriceTable,
    efficiency,
    job_cost,
    load_prices,
    price_basis,
    run_cost,
    usd_per_million_calls,
)
from batchmark.estimate import Estimate, Record
from batchmark.run import LostJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.console import Console

# History of the report's JSON, newest first.
#   1  (2026-11) first version
REPORT_VERSION = 1

SPAN_NAMES = {"process": "Whole job, process", "batch_job": "Whole job, Batch"}
CHART_MINIMUM_DECADES = 0.8
WARNED_ROWS = 2  # whose warnings the terminal prints in full
WIDE_TERMINAL = 140  # columns that hold a value and its interval on one line


class ReportRow(Row):
    efficiency: Efficiency
    gpu_usd_per_million_calls: Estimate | None
    cpu_usd_per_million_calls: Estimate | None


class ReportTotal(TotalTime):
    efficiency: Efficiency


class ReportPair(Pair):
    """A pair with its costs."""

    rows: tuple[ReportRow, ...]
    totals: tuple[ReportTotal, ...]
    gpu_price: PriceBasis
    cpu_price: PriceBasis
    job_costs: tuple[JobCost, ...]
    summary: str | None = Field(description="who is faster and who is cheaper, in how many rows")


class Report(Record):
    report_version: Literal[1] = 1
    notices: tuple[str, ...] = Field(description="to be read before any figure")
    run_id: str
    created_at: AwareDatetime
    pairs: tuple[ReportPair, ...]
    lost: tuple[LostJob, ...]
    prices: PriceTable
    cost: Cost = Field(description="of all jobs with a result")


class _Chart:
    """Where a factor lies on a pair's logarithmic axis, in percent of its width."""

    def __init__(self, estimates: Iterable[Estimate]) -> None:
        values = [1.0]
        for estimate in estimates:
            values.append(estimate.value)
            if estimate.interval:
                values += [max(estimate.interval.low, estimate.value / 1e3), estimate.interval.high]
        low, high = math.log10(min(values)), math.log10(max(values))
        missing = max(0.0, CHART_MINIMUM_DECADES - (high - low)) / 2
        margin = 0.04 * (high - low) + missing
        self._low, self._high = low - margin, high + margin

    def percent(self, value: float) -> float:
        share = (math.log10(max(value, 1e-12)) - self._low) / (self._high - self._low)
        return round(100 * min(1.0, max(0.0, share)), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Positions and labels, one per decade or the 1-2-5 steps of a short axis."""
        steps: Sequence[int] = (1,) if self._high - self._low > 2.4 else (1, 2, 5)
        decades = range(math.floor(self._low), math.ceil(self._high) + 1)
        values = [step * 10.0**decade for decade in decades for step in steps]
        inside = [value for value in values if 4 < self.percent(value) < 96]
        return [(self.percent(value), f"{value:g}{figures.TIMES}") for value in inside]


def build_report(
    comparison: Comparison,
    *,
    prices: PriceTable | None = None,
    created_at: datetime | None = None,
) -> Report:
    """Add costs to a comparison; without `prices`, those of the committed table."""
    prices = prices or load_prices()
    pairs = tuple(_report_pair(pair, prices) for pair in comparison.pairs)
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


def render_html(report: Report) -> str:
    """One self-contained page: no script, nothing loaded from elsewhere."""
    environment = TemplateEnvironment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        time=figures.time,
        factor=figures.factor,
        number=figures.number,
        seconds=figures.seconds,
        usd=figures.usd,
        parameters=figures.parameters,
        web_address=_web_address,
    )
    page = environment.get_template("report.html.jinja")
    return page.render(
        report=report,
        age_days=(report.created_at.date() - report.prices.as_of).days,
        charts=[_Chart(row.speedup for row in pair.rows) for pair in report.pairs],
        fingerprints=[_fingerprint(pair) for pair in report.pairs],
        span_names=SPAN_NAMES,
    )


def render_table(report: Report, console: Console) -> None:
    """Print the report; what must be known before any figure comes first."""
    for notice in report.notices:
        _print(console, notice, "bold yellow")
    _print(console, f"Run {report.run_id}, {report.created_at:%Y-%m-%d %H:%M %Z}")
    for pair in report.pairs:
        console.print()
        _print_pair(pair, console)
    console.print()
    for lost in report.lost:
        job = f"job {lost.job_id}" if lost.job_id else "no job"
        _print(
            console,
            f"Lost: {lost.planned.target}, {lost.planned.suite}, repeat {lost.planned.repeat} "
            f"({job}): {lost.reason}",
            "red",
        )
    if report.cost.usd is not None:
        note = f" ({report.cost.reason})" if report.cost.reason else ""
        _print(console, f"Cost of the run's jobs: {figures.usd(report.cost.usd)}{note}")
    prices = report.prices
    _print(
        console,
        f"Prices: {prices.purchase_option} {prices.operating_system} in {prices.region} "
        f"as of {prices.as_of}. Source: {prices.source}",
    )


def _report_pair(pair: Pair, prices: PriceTable) -> ReportPair:
    gpu_price, cpu_price = price_basis(pair.gpu, prices), price_basis(pair.cpu, prices)
    rows = tuple(
        ReportRow(
            **_fields(row),
            efficiency=efficiency(row.speedup, gpu_price, cpu_price),
            gpu_usd_per_million_calls=usd_per_million_calls(row.gpu.median_seconds, gpu_price),
            cpu_usd_per_million_calls=usd_per_million_calls(row.cpu.median_seconds, cpu_price),
        )
        for row in pair.rows
    )
    totals = tuple(
        ReportTotal(**_fields(total), efficiency=efficiency(total.speedup, gpu_price, cpu_price))
        for total in pair.totals
    )
    fields = _fields(pair) | {"rows": rows, "totals": totals}
    return ReportPair(
        **fields,
        gpu_price=gpu_price,
        cpu_price=cpu_price,
        job_costs=(
            *(job_cost(job, pair.gpu.target, gpu_price) for job in pair.gpu.jobs),
            *(job_cost(job, pair.cpu.target, cpu_price) for job in pair.cpu.jobs),
        ),
        summary=_summary(
            pair,
            rows,
            priced_where_measured=gpu_price.measured_on_it and cpu_price.measured_on_it,
        ),
    )


def _fields(record: Record) -> dict[str, object]:
    return {name: getattr(record, name) for name in type(record).model_fields}


def _summary(pair: Pair, rows: Sequence[ReportRow], *, priced_where_measured: bool) -> str | None:
    if not rows:
        return None
    if pair.cpu_fallback:
        return (
            "Both targets ran on a CPU: neither speedup nor efficiency says anything about a GPU."
        )
    gpu, cpu = pair.gpu.target, pair.cpu.target

    def count(word: str, estimates: Sequence[Estimate | None]) -> str:
        intervals = [one.interval for one in estimates if one and one.interval]
        gpu_rows = sum(interval.low > 1 for interval in intervals)
        cpu_rows = sum(interval.high < 1 for interval in intervals)
        text = f"{word}: {gpu} in {gpu_rows}, {cpu} in {cpu_rows}"
        undecided = len(rows) - gpu_rows - cpu_rows
        return f"{text} ({undecided} undecided)" if undecided else text

    parts = [count("faster", [row.speedup for row in rows])]
    if priced_where_measured and any(row.efficiency.estimate for row in rows):
        parts.append(count("cheaper", [row.efficiency.estimate for row in rows]))
    return f"Of {len(rows)} row{'' if len(rows) == 1 else 's'}, {'; '.join(parts)}."


def _web_address(address: str) -> str | None:
    """The address if it leads to the web or to a file beside the page; None for anything else."""
    parts = urlsplit(address)
    beside = bool(parts.path) and not (parts.scheme or parts.netloc or "\\" in address)
    safe = parts.scheme in {"http", "https"} or beside
    return address if safe and address.isprintable() else None


def _fingerprint(pair: Pair) -> list[tuple[str, str, str, bool]]:
    """Each property of both environments, and whether they differ."""
    sides = []
    for target in (pair.gpu, pair.cpu):
        properties = {"ran on": str(target.actual_device or "no job")}
        if target.environment:
            for name, value in target.environment.model_dump().items():
                if value is not None and name.endswith("_bytes"):
                    value = f"{value / 2**30:.1f} GiB"  # noqa: PLW2901
                properties[name.removesuffix("_bytes")] = "none" if value is None else str(value)
        sides.append(properties)
    names = dict.fromkeys((*sides[0], *sides[1]))
    rows = [(name, sides[0].get(name, "unknown"), sides[1].get(name, "unknown")) for name in names]
    return [(name.replace("_", " "), gpu, cpu, gpu != cpu) for name, gpu, cpu in rows]


def _print_pair(pair: ReportPair, console: Console) -> None:
    gpu, cpu = pair.gpu.target, pair.cpu.target
    _print(console, f"{pair.label}, suite {pair.suite}, {pair.dtype}", "bold")
    if pair.refused:
        _print(console, f"Not compared: {pair.refused}", "yellow")
    jobs = {job.job_id: n for n, job in enumerate((*pair.gpu.jobs, *pair.cpu.jobs), start=1)}
    if pair.rows or pair.totals:
        console.print(_terminal_table(pair, jobs, "\n" if console.width < WIDE_TERMINAL else " "))
    for text in _remarks(pair):
        _print(console, text)
    for job in (*pair.gpu.jobs, *pair.cpu.jobs):
        target = gpu if job in pair.gpu.jobs else cpu
        _print(
            console,
            f"[{jobs[job.job_id]}] {target} repeat {job.repeat}: job {job.job_id} attempt "
            f"{job.job_attempt}, log {job.log_group} {job.log_stream}\n"
            f"    {job.log_url}\n    {job.document_uri}",
        )


def _terminal_table(pair: ReportPair, job_numbers: Mapping[str, int], separator: str) -> Table:
    def cell(estimate: Estimate | None, kind: Callable[[Estimate], figures.Figure]) -> str:
        return separator.join(filter(None, kind(estimate))) if estimate else "-"

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("row", no_wrap=True)
    for heading in (
        f"{pair.gpu.target}\n{'(ran on the CPU)' if pair.cpu_fallback else 'median [95 %]'}",
        f"{pair.cpu.target}\nmedian [95 %]",
        "speedup\n[95 %]",
        "efficiency\n[95 %]",
        "n",
        "jobs",
    ):
        table.add_column(Text(_clean(heading)), justify="right")
    for row in pair.rows:
        sides = (row.gpu, row.cpu)
        numbers = [job_numbers[one.job_id] for side in sides for one in side.provenance]
        table.add_row(
            Text(_clean(f"{row.workload}{separator}{figures.parameters(row.parameters)}")),
            *(cell(side.median_seconds, figures.time) for side in sides),
            cell(row.speedup, figures.factor),
            cell(row.efficiency.estimate, figures.number),
            ", ".join(str(side.samples) for side in sides),
            _ranges(numbers),
        )
    table.add_section()
    for total in pair.totals:
        table.add_row(
            SPAN_NAMES[total.span],
            *(cell(one, figures.time) for one in (total.gpu_seconds, total.cpu_seconds)),
            cell(total.speedup, figures.factor),
            cell(total.efficiency.estimate, figures.number),
        )
    return table


def _ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 5 as "1-3 5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _remarks(pair: ReportPair) -> Iterable[str]:
    if pair.summary:
        yield pair.summary
    for uncompared in pair.uncompared:
        yield (
            f"Not compared: {uncompared.workload} {figures.parameters(uncompared.parameters)}: "
            f"{uncompared.reason}"
        )
    for reason in dict.fromkeys(total.reason for total in pair.totals if total.reason):
        yield f"Whole jobs: {reason}."
    warned = [row for row in pair.rows if row.warnings]
    for row in warned[:WARNED_ROWS]:
        for warning in row.warnings:
            yield f"Warning: {row.workload} {figures.parameters(row.parameters)}: {warning}"
    if len(warned) > WARNED_ROWS:
        yield (
            f"Warning: {len(warned) - WARNED_ROWS} more of {len(pair.rows)} rows have warnings; "
            "the page shows each beside its row."
        )
    for note in (*pair.notes, pair.gpu_price.note, pair.cpu_price.note):
        if note:
            yield f"Note: {note}"


def _print(console: Console, text: str, style: str = "") -> None:
    console.print(Text(_clean(text), style=style), soft_wrap=True)


def _clean(text: str) -> str:
    """Keep a terminal's control sequences out of the output."""
    return "".join(
        one if one.isprintable() or one == "\n" else "\N{REPLACEMENT CHARACTER}" for one in text
    )
