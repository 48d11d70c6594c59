"""The report as tables and lines on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from batchmark.analysis.compared_rows import SIGNS
from batchmark.core import formatting
from batchmark.core.intervals import Estimate
from batchmark.report import change_words, words
from batchmark.report.answer import AHEAD, answer_lines, cost
from batchmark.report.changes import AlertBoard, ChangesSection
from batchmark.report.studies import sections
from batchmark.report.terminal.sections import cold_start_lines, notes, print_section
from batchmark.report.terminal.text import clean, print_text
from batchmark.report.words import NOT_KNOWN
from batchmark_job.result.values import CONFIDENCE_TEXT

if TYPE_CHECKING:
    from batchmark.analysis.compared_rows import Row, TotalTime
    from batchmark.analysis.comparison import Pair
    from batchmark.report.model import Report


class _Layout(NamedTuple):
    separator: str = "\n"  # between a value and its interval
    noise: bool = True
    ceilings: bool = True
    counts: bool = True  # of samples, and the efficiency; the verdict has its gist
    jobs: bool = True  # by their numbers in the list below

    def headings(self, pair: Pair) -> Iterator[str]:
        median = f"median [{CONFIDENCE_TEXT}]"
        yield f"{pair.gpu.target}\n{'(ran on the CPU)' if pair.cpu_fallback else median}"
        yield f"{pair.cpu.target}\n{median}"
        yield f"speedup\n[{CONFIDENCE_TEXT}]"
        yield "GPU is"
        if self.counts:
            yield f"efficiency\n[{CONFIDENCE_TEXT}]"
        if self.noise:
            yield "noise,\nmissed below"
        if self.ceilings:
            yield "of ceiling,\nGPU, CPU"
        if self.counts:
            yield "n"
        if self.counts and self.jobs:
            yield "jobs"

    def cells(self, row: Row, pair: Pair, job_numbers: Mapping[str, int]) -> Iterator[str]:
        sides = (row.gpu, row.cpu)
        for side in sides:
            yield self.cell(side.median_seconds, formatting.time)
        yield self.cell(row.speedup, formatting.factor)
        yield "-" if pair.cpu_fallback else f",{self.separator}".join(_verdict(row))
        if self.counts:
            yield self.cell(row.efficiency.estimate, formatting.number)
        if self.noise:
            noise = (row.noise.floor, row.noise.smallest_detectable_change)
            yield f",{self.separator}".join(map(formatting.noise, noise))
        if self.ceilings:
            yield self.shares(*(side.roofline.share if side.roofline else None for side in sides))
        if self.counts:
            yield f",{self.separator}".join(str(side.samples) for side in sides)
        if self.counts and self.jobs:
            yield _ranges([job_numbers[job.job_id] for side in sides for job in side.provenance])

    def cell(self, estimate: Estimate | None, kind: Callable[[Estimate], formatting.Figure]) -> str:
        return self.separator.join(filter(None, kind(estimate))) if estimate else "-"

    def whole_jobs(self, total: TotalTime) -> str:
        if not (speedup := words.whole_jobs_speedup(total)):
            return "-"
        value = speedup.value.replace("known ", f"known{self.separator}")
        return self.separator.join(filter(None, (value, speedup.interval)))

    def efficiency(self, total: TotalTime) -> str:
        estimate = total.efficiency.estimate
        return self.cell(estimate if estimate and estimate.interval else None, formatting.number)

    def shares(self, *values: float | None) -> str:
        texts = ("-" if value is None else formatting.percent(value) for value in values)
        return f",{self.separator}".join(texts)


# The first that fits the console is taken, else the last.
LAYOUTS = (
    _Layout(separator=" "),
    _Layout(separator=" ", ceilings=False),
    _Layout(),
    _Layout(ceilings=False),
    _Layout(ceilings=False, noise=False, counts=False),
)


def render_table(report: Report, console: Console) -> None:
    """Print the report, beginning with what must be known before any figure."""
    for notice in report.notices:
        print_text(console, notice, "bold yellow")
    print_text(console, f"Run {report.run_id}, {report.created_at:%Y-%m-%d %H:%M %Z}")
    said = list(answer_lines(report))  # each note once, however many pairs it concerns
    for line in said:
        print_text(console, line)
    for line in _change_lines(report):
        print_text(console, line)
    for section in sections(report):
        print_section(section, console, said)
    for pair in report.pairs:
        console.print()
        _print_pair(pair, console, said)
    console.print()
    for lost, paid_for in zip(report.lost, report.lost_costs, strict=True):
        job = f"job {lost.job_id}" if lost.job_id else "no job"
        paid = f", {formatting.usd(paid_for.usd)}" if paid_for.usd else ""
        print_text(
            console,
            f"Lost: {lost.planned.target}, {lost.planned.measures}, repeat {lost.planned.repeat} "
            f"({job}{paid}): {lost.reason}",
            "red",
        )
    print_text(console, f"Cost of the run's jobs: {cost(report)}")
    if words.outside_ec2(report.pairs, report.studied):
        return
    prices = report.prices
    print_text(
        console,
        f"Prices: {prices.operating_system} in {prices.region} as of {prices.as_of}. "
        f"Source: {prices.source}",
    )
    for line in notes(words.price_cautions(report), said):
        print_text(console, line)


def _print_pair(pair: Pair, console: Console, said: list[str]) -> None:
    print_text(console, f"{pair.label}, suite {pair.suite}", "bold")
    if prices := words.prices(pair):
        print_text(console, prices)
    if pair.refused:
        print_text(console, f"Not compared: {pair.refused}", "yellow")
    jobs = {job.job_id: n for n, job in enumerate((*pair.gpu.jobs, *pair.cpu.jobs), start=1)}
    if pair.rows or pair.totals:
        console.print(_comparison(pair, jobs, console))
    for text in chain(_remarks(pair, said), _crossovers(pair)):
        print_text(console, text)
    if words.is_own_job(pair):
        return  # its sides have theirs together
    labels = {pair.gpu.target: words.gpu_label(pair), pair.cpu.target: pair.cpu.target}
    cold_starts = chain.from_iterable(
        cold_start_lines(one, labels[one.target], said) for one in pair.cold_starts
    )
    for text in chain(cold_starts, _jobs(pair, jobs)):
        print_text(console, text)


def _jobs(pair: Pair, job_numbers: Mapping[str, int]) -> Iterable[str]:
    costs = {cost.job_id: cost.usd for cost in pair.job_costs}
    for target in (pair.gpu, pair.cpu):
        for job in target.jobs:
            paid = f", {formatting.usd(usd)}" if (usd := costs[job.job_id]) else ""
            yield (
                f"[{job_numbers[job.job_id]}] {target.target} repeat {job.repeat}: job "
                f"{job.job_id} attempt {job.job_attempt}{paid}, log {job.log_group} "
                f"{job.log_stream}\n    {job.log_url}\n    {job.document_uri}"
            )
            if job.telemetry:
                metrics = "; ".join(words.metric(summary) for summary in job.telemetry)
                yield f"    telemetry, mean (range): {metrics}"


def _comparison(pair: Pair, job_numbers: Mapping[str, int], console: Console) -> Table:
    """The widest layout that fits."""
    unbounded = console.options.update(width=10_000)
    layouts = list(LAYOUTS)
    if words.is_own_job(pair):
        layouts = [one._replace(jobs=False) for one in LAYOUTS if not one.ceilings]
    tables = [_table(pair, job_numbers, layout) for layout in layouts]
    fitting = (
        table
        for table in tables
        if Measurement.get(console, unbounded, table).maximum <= console.width
    )
    return next(fitting, tables[-1])


def _table(pair: Pair, job_numbers: Mapping[str, int], layout: _Layout) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("row", no_wrap=layout.counts)
    for heading in layout.headings(pair):
        table.add_column(Text(clean(heading)), justify="right", no_wrap=True)
    for row in pair.rows:
        name = Text(clean(words.row_label(row, layout.separator)))
        table.add_row(name, *layout.cells(row, pair, job_numbers))
    table.add_section()
    for total in pair.totals:
        table.add_row(
            words.SPAN_NAMES[total.span],
            layout.cell(total.gpu_seconds, formatting.time),
            layout.cell(total.cpu_seconds, formatting.time),
            layout.whole_jobs(total),
            *(["", layout.efficiency(total)][: 1 + layout.counts]),
        )
    return table


def _verdict(row: Row) -> Iterator[str]:
    """What the GPU target is, in time and, where that is known, in dollars."""
    signs = {"time": SIGNS[row.verdict], "dollars": SIGNS[row.cheaper]}
    if not any(signs.values()):
        yield NOT_KNOWN
    for measure, (ahead, behind) in AHEAD.items():
        if sign := signs[measure]:
            yield ahead if sign > 0 else behind


def _ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 5 as "1-3 5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _remarks(pair: Pair, said: list[str]) -> Iterable[str]:
    if pair.summary:
        yield pair.summary
    for uncompared in pair.uncompared:
        yield f"Not compared: {words.row_label(uncompared)}: {uncompared.reason}"
    for reason in dict.fromkeys(total.reason for total in pair.totals if total.reason):
        yield f"Whole jobs: {reason}."
    yield from notes((*pair.notes, *words.price_notes(pair)), said)


def _crossovers(pair: Pair) -> Iterable[str]:
    if not pair.crossovers:
        return
    gpu, cpu = pair.gpu.target, pair.cpu.target
    yield f"Sizes from which {gpu} stays ahead of {cpu} [{CONFIDENCE_TEXT}]:"
    for crossover in pair.crossovers:
        figures = words.crossover_figures(crossover, pair)
        kinds = zip(words.crossover_kinds(pair), figures, strict=True)
        found = [f"{kind} {figure}" for kind, figure in kinds if figure]
        name = f"{words.crossover_name(crossover)} ({words.crossover_sizes(crossover)})"
        yield f"  {name}: {'; '.join(found)}"
        for remark in words.crossover_remarks(crossover, pair):
            yield f"    {remark}"


def _change_lines(report: Report) -> Iterator[str]:
    """What changed, what re-runs said, and the alerts; the histories are on the page alone."""
    if report.changes:
        yield from _changes(report.changes, report.fell_back)
    if report.alerts and not report.alerts.is_empty:
        yield from _alerts(report.alerts)


def _changes(found: ChangesSection, fell_back: Collection[str]) -> Iterator[str]:
    yield f"Changes: {change_words.summary(found)}"
    for note in found.notes:
        yield f"Note: {note}"
    for change in found.changes:
        yield f"  {change_words.title(change)}"
        yield from (f"    {line}" for line in change_words.lines(change))
    if found.confirmations:
        yield change_words.suspects(found.confirmations)
    for confirmation in found.confirmations:
        target = change_words.target(confirmation.series.target, fell_back)
        figures = change_words.confirmation(confirmation)
        yield f"  {confirmation.outcome}: {target}, {figures} ({confirmation.reason})"


def _alerts(board: AlertBoard) -> Iterator[str]:
    yield change_words.precision(board.precision)
    for alert in board.lines:
        note = f" ({alert.note})" if alert.note else ""
        yield (
            f"Alert {alert.alert_id}, {alert.state}: {alert.title}, suite {alert.suite}, since run "
            f"{alert.since_run_id}{note}"
        )
    yield from board.how_to_change.splitlines()
