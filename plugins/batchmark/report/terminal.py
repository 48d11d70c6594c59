"""The report as tables and lines on a terminal."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich import box
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from batchmark import figures, report_words
from batchmark.changes_terminal import change_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.console import Console

    from batchmark.comparison import UncomparedRow
    from batchmark.estimate import Estimate
    from batchmark.ledger import Ledger
    from batchmark.report import Report, ReportPair, ReportRow

WARNED_ROWS = 2  # whose warnings are printed in full


class _Layout(NamedTuple):
    separator: str = "\n"  # between a value and its interval
    noise: bool = True
    ceilings: bool = True
    no_wrap: bool = True


# The first that fits is taken, else the last.
LAYOUTS = (
    _Layout(separator=" "),
    _Layout(separator=" ", ceilings=False),
    _Layout(),
    _Layout(ceilings=False),
    _Layout(ceilings=False, noise=False, no_wrap=False),
)


def render_table(report: Report, console: Console) -> None:
    """Print the report; what must be known before any figure comes first."""
    for notice in report.notices:
        _print(console, notice, "bold yellow")
    _print(console, f"Run {report.run_id}, {report.created_at:%Y-%m-%d %H:%M %Z}")
    for line in change_lines(report):
        _print(console, line)
    for pair in report.pairs:
        console.print()
        _print_pair(pair, console)
    console.print()
    for lost, cost in zip(report.lost, report.lost_costs, strict=True):
        job = f"job {lost.job_id}" if lost.job_id else "no job"
        paid = f", {figures.usd(cost.usd)}" if cost.usd else ""
        _print(
            console,
            f"Lost: {lost.planned.target}, {lost.planned.suite}, repeat {lost.planned.repeat} "
            f"({job}{paid}): {lost.reason}",
            "red",
        )
    if report.cost.usd is not None:
        note = f" ({report.cost.reason})" if report.cost.reason else ""
        total = f"{figures.usd(report.cost.usd)}, {report_words.JOB_COSTS}"
        _print(console, f"Cost of the run's jobs: {total}{note}")
    prices = report.prices
    _print(
        console,
        f"Prices: {prices.operating_system} in {prices.region} as of {prices.as_of}. "
        f"Source: {prices.source}",
    )
    for note in filter(None, (prices.staleness(report.created_at), *prices.all_notes)):
        _print(console, f"Note: {note}")


def _print_pair(pair: ReportPair, console: Console) -> None:
    _print(console, f"{pair.label}, suite {pair.suite}", "bold")
    if prices := report_words.prices(pair):
        _print(console, prices)
    if pair.refused:
        _print(console, f"Not compared: {pair.refused}", "yellow")
    jobs = {job.job_id: n for n, job in enumerate((*pair.gpu.jobs, *pair.cpu.jobs), start=1)}
    costs = {one.job_id: one.usd for one in pair.job_costs}
    if pair.rows or pair.totals:
        console.print(_comparison(pair, jobs, console))
    for text in _remarks(pair):
        _print(console, text)
    for text in _crossovers(pair):
        _print(console, text)
    for ledger in pair.ledgers:
        for text in _ledger(ledger, pair):
            _print(console, text)
    for target in (pair.gpu, pair.cpu):
        for job in target.jobs:
            paid = f", {figures.usd(usd)}" if (usd := costs[job.job_id]) else ""
            _print(
                console,
                f"[{jobs[job.job_id]}] {target.target} repeat {job.repeat}: job {job.job_id} "
                f"attempt {job.job_attempt}{paid}, log {job.log_group} {job.log_stream}\n"
                f"    {job.log_url}\n    {job.document_uri}",
            )
            if job.telemetry:
                metrics = "; ".join(report_words.metric(one) for one in job.telemetry)
                _print(console, f"    telemetry, mean (range): {metrics}")


def _comparison(pair: ReportPair, job_numbers: Mapping[str, int], console: Console) -> Table:
    """The widest layout that fits."""
    unbounded = console.options.update(width=10_000)
    tables = [_table(pair, job_numbers, layout) for layout in LAYOUTS]
    fitting = (
        table
        for table in tables
        if Measurement.get(console, unbounded, table).maximum <= console.width
    )
    return next(fitting, tables[-1])


def _table(pair: ReportPair, job_numbers: Mapping[str, int], layout: _Layout) -> Table:
    def cell(estimate: Estimate | None, kind: Callable[[Estimate], figures.Figure]) -> str:
        return layout.separator.join(filter(None, kind(estimate))) if estimate else "-"

    def shares(values: Iterable[float | None]) -> str:
        texts = ("-" if value is None else figures.percent(value) for value in values)
        return f",{layout.separator}".join(texts)

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("row", no_wrap=layout.no_wrap)
    headings = [
        f"{pair.gpu.target}\n{'(ran on the CPU)' if pair.cpu_fallback else 'median [95 %]'}",
        f"{pair.cpu.target}\nmedian [95 %]",
        "speedup\n(undecided: ?)",
        "efficiency\n[95 %]",
        *(["noise,\nunseen below"] if layout.noise else []),
        *(["of ceiling,\nGPU, CPU"] if layout.ceilings else []),
        "n",
        "jobs",
    ]
    for heading in headings:
        table.add_column(Text(_clean(heading)), justify="right", no_wrap=layout.no_wrap)
    for row in pair.rows:
        sides = (row.gpu, row.cpu)
        numbers = [job_numbers[one.job_id] for side in sides for one in side.provenance]
        noise = (row.noise.floor, row.noise.smallest_detectable_change)
        ceilings = [one.share if (one := side.roofline) else None for side in sides]
        table.add_row(
            Text(_clean(_row_name(row, layout.separator))),
            *(cell(side.median_seconds, figures.time) for side in sides),
            cell(row.speedup, partial(_speedup, row)),
            cell(row.efficiency.estimate, figures.number),
            *([shares(noise)] if layout.noise else []),
            *([shares(ceilings)] if layout.ceilings else []),
            f",{layout.separator}".join(str(side.samples) for side in sides),
            _ranges(numbers),
        )
    table.add_section()
    for total in pair.totals:
        table.add_row(
            report_words.SPAN_NAMES[total.span],
            *(cell(one, figures.time) for one in (total.gpu_seconds, total.cpu_seconds)),
            cell(total.speedup, figures.factor),
            cell(total.efficiency.estimate, figures.number),
        )
    return table


def _speedup(row: ReportRow, estimate: Estimate) -> figures.Figure:
    figure = figures.factor(estimate)
    mark = " ?" if row.verdict == "undecided" else ""
    return figure._replace(value=figure.value + mark)


def _row_name(row: ReportRow | UncomparedRow, separator: str = " ") -> str:
    return f"{row.workload}{separator}{figures.parameters(row.parameters)}, {row.dtype}"


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
        yield f"Not compared: {_row_name(uncompared)}: {uncompared.reason}"
    for reason in dict.fromkeys(total.reason for total in pair.totals if total.reason):
        yield f"Whole jobs: {reason}."
    warned = [row for row in pair.rows if row.warnings]
    for row in warned[:WARNED_ROWS]:
        for warning in row.warnings:
            yield f"Warning: {_row_name(row)}: {warning}"
    if len(warned) > WARNED_ROWS:
        yield (
            f"Warning: {len(warned) - WARNED_ROWS} more of {len(pair.rows)} rows have warnings; "
            "the page shows each beside its row."
        )
    for note in (*pair.notes, *report_words.price_notes(pair)):
        yield f"Note: {note}"


def _crossovers(pair: ReportPair) -> Iterable[str]:
    if not pair.crossovers:
        return
    yield f"Sizes from which {pair.gpu.target} stays ahead of {pair.cpu.target} [95 %]:"
    for one in pair.crossovers:
        found = [
            f"{kind} {figure}"
            for kind, figure in zip(
                report_words.CROSSOVER_KINDS,
                report_words.crossover_figures(one, pair),
                strict=True,
            )
            if figure
        ]
        name = f"{report_words.crossover_name(one)} ({report_words.crossover_sizes(one)})"
        yield f"  {name}: {'; '.join(found)}"
        for remark in report_words.crossover_remarks(one, pair):
            yield f"    {remark}"


def _ledger(ledger: Ledger, pair: ReportPair) -> Iterable[str]:
    label = report_words.gpu_label(pair) if ledger.target == pair.gpu.target else ledger.target
    jobs = f"median of {ledger.jobs} jobs" if ledger.jobs > 1 else "one job"
    usd = ""
    if ledger.usd:
        usd = f", at least {figures.usd(ledger.usd)}, billed from {ledger.billed_from} on"
    span = report_words.ledger_span(ledger)
    yield f"{label}, {span}: {figures.seconds(ledger.seconds)}{usd} ({jobs})"
    yield "  " + "; ".join(f"{step.name} {figures.seconds(step.seconds)}" for step in ledger.steps)
    for note in ledger.notes:
        yield f"  Note: {note}"


def _print(console: Console, text: str, style: str = "") -> None:
    console.print(Text(_clean(text), style=style), soft_wrap=True)


def _clean(text: str) -> str:
    """Keep a terminal's control sequences out of the output."""
    return "".join(
        one if one.isprintable() or one == "\n" else "\N{REPLACEMENT CHARACTER}" for one in text
    )
