"""Shows the rows of two sides in a table that fits the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from batchmark.analysis.pairs.answer import Measure
from batchmark.analysis.pairs.compared_rows import SIGNS, Row, TotalTime
from batchmark.analysis.pairs.pair import Pair
from batchmark.core import formatting
from batchmark.core.intervals import Estimate
from batchmark.report import words
from batchmark.report.terminal.text import bare_table, plain, print_text
from batchmark.report.words import AHEAD, NOT_KNOWN
from batchmark_job.result.confidence import CONFIDENCE_TEXT

if TYPE_CHECKING:
    from batchmark.report.site.compare import Comparison


class _Layout(NamedTuple):
    separator: str = "\n"  # between a value and its interval
    noise: bool = True
    ceilings: bool = True
    counts: bool = True  # samples, and the efficiency, which the verdict sums up
    jobs: bool = True  # as numbers in the list below

    def headings(self, pair: Pair) -> Iterator[tuple[str, ...]]:
        """Yield each column's heading as a tuple of lines."""
        interval = [f"[{CONFIDENCE_TEXT}]"] if words.has_intervals(pair) else []
        median = " ".join(["median", *interval])
        yield pair.gpu.target, "(ran on the CPU)" if pair.cpu_fallback else median
        yield pair.cpu.target, median
        yield "speedup", *interval
        yield ("GPU is",)
        if self.counts:
            yield "efficiency", *interval
        if self.noise:
            yield "noise,", "missed below"
        if self.ceilings:
            yield "of ceiling,", "GPU, CPU"
        if self.counts:
            yield ("n",)
        if self.counts and self.jobs:
            yield ("jobs",)

    def cells(self, row: Row, pair: Pair, job_numbers: Mapping[str, int]) -> Iterator[str]:
        sides = (row.gpu, row.cpu)
        yield from self.times([side.median_seconds for side in sides])
        yield self.cell(row.speedup, formatting.factor)
        yield "-" if pair.cpu_fallback else f",{self.separator}".join(_verdict(row))
        if self.counts:
            yield self.cell(row.efficiency.estimate, formatting.number)
        if self.noise:
            noise = (row.noise.floor, row.noise.smallest_detectable_change)
            yield f",{self.separator}".join(map(formatting.noise, noise))
        if self.ceilings:
            shares = (side.roofline.share if side.roofline else None for side in sides)
            texts = ("-" if share is None else formatting.percent(share) for share in shares)
            yield f",{self.separator}".join(texts)
        if self.counts:
            yield f",{self.separator}".join(str(side.samples) for side in sides)
        if self.counts and self.jobs:
            yield _ranges([job_numbers[job.job_id] for side in sides for job in side.provenance])

    def cell(self, estimate: Estimate | None, kind: Callable[[Estimate], formatting.Figure]) -> str:
        return self.separator.join(filter(None, kind(estimate))) if estimate else "-"

    def times(self, sides: Sequence[Estimate | None]) -> Iterator[str]:
        """Yield both sides' times, rounded to the same digit."""
        for side in sides:
            yield self.cell(side, lambda seconds: formatting.time(seconds, sides))

    def whole_jobs(self, total: TotalTime) -> str:
        if not (speedup := words.whole_jobs_speedup(total)):
            return "-"
        value = speedup.value.replace("known ", f"known{self.separator}")
        return self.separator.join(filter(None, (value, speedup.interval)))


LONGEST_WORKLOAD = len("attention_backward")  # of ours
SHORT_NAMES = ("new", "baseline")  # of two sides whose own names don't fit
# Names stand over three columns. The row's name, a ratio and the gaps take the rest.
BESIDE_NAMES = LONGEST_WORKLOAD + len("[0.964, 1.112]") + 10
# The first one that fits the console is used, else the last.
LAYOUTS = (
    _Layout(separator=" "),
    _Layout(separator=" ", ceilings=False),
    _Layout(),
    _Layout(ceilings=False),
    _Layout(ceilings=False, noise=False, counts=False),
)


def comparison_table(pair: Pair, console: Console) -> Table:
    """Build a pair's table in the first layout that fits, else the last, with its jobs numbered."""
    jobs = (*pair.gpu.jobs, *pair.cpu.jobs)
    job_numbers = {job.job_id: number for number, job in enumerate(jobs, start=1)}
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
    table = bare_table()
    table.add_column("row", no_wrap=layout.counts)
    for heading in layout.headings(pair):
        table.add_column(plain(*heading), justify="right", no_wrap=True)
    for row in pair.rows:
        parts = filter(None, (row.workload, words.row_details(row)))
        name = plain(*parts) if layout.separator == "\n" else plain(" ".join(parts))
        table.add_row(name, *layout.cells(row, pair, job_numbers))
    table.add_section()
    for total in pair.totals:
        efficiency = total.efficiency.estimate
        known = efficiency if efficiency and efficiency.interval else None
        table.add_row(
            words.SPAN_NAMES[total.span],
            *layout.times([total.gpu_seconds, total.cpu_seconds]),
            layout.whole_jobs(total),
            *(["", layout.cell(known, formatting.number)][: 1 + layout.counts]),
        )
    return table


def render_comparison(comparison: Comparison, console: Console) -> None:
    names = comparison.names
    print_text(console, comparison.answer)
    if 3 * max(map(len, names)) + BESIDE_NAMES > console.width:
        print_text(console, f"{SHORT_NAMES[0]}: {names[0]}; {SHORT_NAMES[1]}: {names[1]}")
        names = SHORT_NAMES
    for one, rows in comparison.views():
        if one.refused:
            print_text(console, f"{one.suite} is not compared: {one.refused}")
            continue
        table = bare_table()
        words_of_names = (word for view in rows for word in view.name.split())
        table.add_column(
            plain(f"suite {one.suite}"), min_width=max(map(len, words_of_names), default=0)
        )
        interval = [f"[{CONFIDENCE_TEXT}]"] if comparison.has_intervals else []
        speedup, verdict = plain(comparison.ratio, *interval), plain(f"{names[0]} is")
        for heading in (*map(plain, names), speedup, verdict):
            table.add_column(heading, justify="right", no_wrap=True)
        for view in rows:
            figures = (view.first, view.second, formatting.factor(view.row.speedup))
            table.add_row(
                plain(view.name),
                *(plain(*filter(None, figure)) for figure in figures),
                view.word.replace("known ", "known\n").replace("no d", "no\nd"),
            )
        console.print(table)
        for uncompared in one.uncompared:
            print_text(console, f"Not compared: {words.row_label(uncompared)}: {uncompared.reason}")
    for line in (*comparison.remarks, *comparison.difference_lines):
        print_text(console, line)


def _verdict(row: Row) -> Iterator[str]:
    """Yield the verdict on the GPU target by time and by dollars, as far as known."""
    signs = {Measure.TIME: SIGNS[row.verdict], Measure.DOLLARS: SIGNS[row.cheaper]}
    if not any(signs.values()):
        yield NOT_KNOWN
    for measure, (ahead, behind) in AHEAD.items():
        if sign := signs[measure]:
            yield ahead if sign > 0 else behind


def _ranges(numbers: Sequence[int]) -> str:
    """Shorten numbers to ranges: 1, 2, 3, 5 becomes "1-3 5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
