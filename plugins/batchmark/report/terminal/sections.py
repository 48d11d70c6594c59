"""A report's sections on a terminal: text, tables, remarks; charts are on the page alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text as RichText

from batchmark.core import formatting
from batchmark.report import words
from batchmark.report.answer import answer_lines
from batchmark.report.blocks import (
    Block,
    ChangeDetails,
    ColdStarts,
    Comparison,
    Facts,
    Folded,
    Jobs,
    Lines,
    Page,
    Remarks,
    Section,
    Table,
    Text,
    Traces,
    Uncompared,
)
from batchmark.report.machines import JobLine
from batchmark.report.terminal.rows import comparison_table
from batchmark.report.terminal.text import clean, print_text

STYLES = {"notice": "yellow"}


def print_section(section: Section, console: Console, said: list[str]) -> None:
    console.print()
    print_text(console, section.title, "bold")
    print_blocks(section.blocks, console, said)


def print_page(page: Page, console: Console) -> None:
    """Print a page; a short answer comes last, where a reader of a log looks first."""
    for notice in page.notices:
        print_text(console, notice, "bold yellow")
    print_text(console, f"{page.title}: {page.about}")
    said = [] if isinstance(page.answer, str) else list(answer_lines(page.answer))
    for line in said:
        print_text(console, line)
    print_blocks(page.blocks, console, said)
    for section in page.sections:
        if not section.on_page_alone:
            print_section(section, console, said)
    if isinstance(page.answer, str):
        print_text(console, page.answer, "bold")
    for warning in page.warnings:
        print_text(console, warning, "yellow")


def print_blocks(blocks: Iterable[Block], console: Console, said: list[str] | None = None) -> None:
    """`said` are notes that need not be repeated."""
    said = [] if said is None else said
    for block in blocks:
        if isinstance(block, Table):
            console.print(_table(block))
        elif isinstance(block, Comparison):
            console.print(comparison_table(block.pair, console))
        elif isinstance(block, Folded):
            print_blocks(block.blocks, console, said)
        else:
            style = STYLES.get(block.style, "") if isinstance(block, Text) else ""
            for line in LINES[type(block)](block, said) if type(block) in LINES else ():
                print_text(console, line, style)


def _traces(block: Traces, _: list[str]) -> Iterator[str]:
    for job in block.jobs:
        yield f"{job.job_id} attempt {job.job_attempt}, log {job.log_group} {job.log_stream}"
        yield f"    {job.log_url}\n    {job.document_uri}"


def _cold_starts(block: ColdStarts, said: list[str]) -> Iterator[str]:
    for start in block.starts:
        jobs = f"median of {start.jobs} jobs" if start.jobs > 1 else "one job"
        usd = ""
        if start.usd:
            usd = f", at least {formatting.usd(start.usd)}, billed from {start.billed_from} on"
        span = words.cold_start_span(start)
        label, seconds = block.labels[start.target], formatting.seconds(start.seconds)
        yield f"{label}, {span}: {seconds}{usd} ({jobs})"
        steps = (f"{step.name} {formatting.seconds(step.seconds)}" for step in start.steps)
        yield f"  {'; '.join(steps)}"
        yield from (f"  {note}" for note in notes(start.notes, said))


def _uncompared(block: Uncompared, _: list[str]) -> Iterator[str]:
    for row in block.pair.uncompared:
        yield f"Not compared: {words.row_label(row)}: {row.reason}"


def _told(block: Lines, _: list[str]) -> Iterator[str]:
    yield f"{block.title}:"
    yield from (f"  {text}: {line}" for text, line in block.lines)


def _jobs(block: Jobs, _: list[str]) -> Iterator[str]:
    if block.listed:
        for number, line in enumerate(block.jobs, start=1):
            yield from _job_lines(number, line)
        return
    for target, jobs in Counter(line.target for line in block.jobs).items():
        yield f"{target}: {formatting.count(jobs, 'job')}; logs and documents: see the page"


# Of each block that is lines of text; `said` are notes that need not be repeated.
LINES: dict[type, Callable[[Any, list[str]], Iterable[str]]] = {
    Text: lambda block, _: [" ".join(filter(None, (block.text, str(block.link or ""))))],
    ChangeDetails: lambda block, _: [block.title, *(f"  {line}" for line in block.lines)],
    Facts: lambda block, _: [f"{question}: {text}" for question, text in block.facts],
    Remarks: lambda block, said: notes((*block.texts, *block.notes), said),
    Lines: _told,
    Traces: _traces,
    ColdStarts: _cold_starts,
    Uncompared: _uncompared,
    Jobs: _jobs,
}


def _job_lines(number: int, line: JobLine) -> Iterator[str]:
    job, usd = line.job, line.cost.usd if line.cost else None
    paid = f", {formatting.usd(usd)}" if usd else ""
    yield (
        f"[{number}] {line.target} repeat {job.repeat}: job {job.job_id} attempt "
        f"{job.job_attempt}{paid}, log {job.log_group} {job.log_stream}"
    )
    yield f"    {job.log_url}\n    {job.document_uri}"
    if job.telemetry:
        metrics = "; ".join(words.metric(summary) for summary in job.telemetry)
        yield f"    telemetry, mean (range): {metrics}"


def _table(shown: Table) -> RichTable:
    kept = [place for place, name in enumerate(shown.headings) if name not in shown.on_page_alone]
    table = RichTable(
        title=RichText(clean(shown.title)),
        caption=RichText(clean(shown.caption)),
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 0, 0, 1),
    )
    for place in kept:
        table.add_column(
            RichText(clean(shown.headings[place])),
            justify="right" if place and not shown.wide else "left",
        )
    for row in shown.rows:
        table.add_row(*(RichText(clean(str(row[place]))) for place in kept))
    return table


def notes(notes: Iterable[str | None], said: list[str]) -> Iterator[str]:
    """Those that were not said yet; they are said now."""
    for note in notes:
        if note and note not in said:
            said.append(note)
            yield note
