"""Prints a report's sections in a terminal, except for charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from batchmark.core import formatting
from batchmark.core.formatting import Figure
from batchmark.report import blocks, words
from batchmark.report.answer import answer_lines
from batchmark.report.machines import JobLine
from batchmark.report.terminal.rows import comparison_table
from batchmark.report.terminal.text import bare_table, plain, print_text

STYLES = {"notice": "yellow"}


def print_page(page: blocks.Page, console: Console) -> None:
    """Print a page; a short answer comes at the end, where log readers look first."""
    for notice in page.notices:
        print_text(console, notice, "bold yellow")
    print_text(console, f"{page.title}: {page.about}")
    said = [] if isinstance(page.answer, str) else list(answer_lines(page.answer))
    for line in said:
        print_text(console, line)
    print_blocks(page.blocks, console, said)
    for section in page.sections:
        if not section.on_page_alone:
            console.print()
            print_text(console, section.title, "bold")
            print_blocks(section.blocks, console, said)
    if isinstance(page.answer, str):
        print_text(console, page.answer, "bold")
    for warning in page.warnings:
        print_text(console, warning, "yellow")


def print_blocks(
    shown: Iterable[blocks.Block], console: Console, said: list[str] | None = None
) -> None:
    """Print blocks, except for notes that are already in `said`."""
    said = [] if said is None else said
    for block in shown:
        if isinstance(block, blocks.Table):
            console.print(_table(block))
        elif isinstance(block, blocks.Comparison):
            console.print(comparison_table(block.pair, console))
        elif isinstance(block, blocks.Folded):
            print_blocks(block.blocks, console, said)
        else:
            style = STYLES.get(block.style, "") if isinstance(block, blocks.Text) else ""
            for line in LINES[type(block)](block, said) if type(block) in LINES else ():
                print_text(console, line, style)


def _traces(block: blocks.Traces, _: list[str]) -> Iterator[str]:
    for job in block.jobs:
        yield f"{job.job_id} attempt {job.job_attempt}, log {job.log_group} {job.log_stream}"
        yield f"    {job.log_url}"
        yield f"    {job.document_uri}"


def _cold_starts(block: blocks.ColdStarts, said: list[str]) -> Iterator[str]:
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


def _jobs(block: blocks.Jobs, _: list[str]) -> Iterator[str]:
    if block.listed:
        for number, line in enumerate(block.jobs, start=1):
            yield from _job_lines(number, line)
        return
    for target, jobs in Counter(line.target for line in block.jobs).items():
        yield f"{target}: {formatting.count(jobs, 'job')}; for logs and documents, see the page"


# Formats blocks that are lines of text; notes in the passed list are not repeated.
LINES: dict[type, Callable[[Any, list[str]], Iterable[str]]] = {
    blocks.Text: lambda block, _: [" ".join(filter(None, (block.text, str(block.link or ""))))],
    blocks.ChangeDetails: lambda block, _: [block.title, *(f"  {line}" for line in block.lines)],
    blocks.Facts: lambda block, _: [f"{question}: {text}" for question, text in block.facts],
    blocks.Remarks: lambda block, said: notes((*block.texts, *block.notes), said),
    blocks.Lines: lambda block, _: [
        f"{block.title}:",
        *(f"  {text}: {line}" for text, line in block.lines),
    ],
    blocks.Printed: lambda block, _: [
        block.title,
        *([f"{block.caption}:"] if block.lines else []),
        *(f"  {line}" for line in block.lines),
    ],
    blocks.Traces: _traces,
    blocks.ColdStarts: _cold_starts,
    blocks.Uncompared: lambda block, _: [
        f"Not compared: {words.row_label(row)}: {row.reason}" for row in block.pair.uncompared
    ],
    blocks.Jobs: _jobs,
}


def _job_lines(number: int, line: JobLine) -> Iterator[str]:
    job, usd = line.job, line.cost.usd if line.cost else None
    paid = f", {formatting.usd(usd)}" if usd else ""
    yield (
        f"[{number}] {line.target} repeat {job.repeat}: job {job.job_id} attempt "
        f"{job.job_attempt}{paid}, log {job.log_group} {job.log_stream}"
    )
    yield f"    {job.log_url}"
    yield f"    {job.document_uri}"
    if job.telemetry:
        metrics = "; ".join(words.metric(summary) for summary in job.telemetry)
        yield f"    telemetry, mean (range): {metrics}"


def _table(shown: blocks.Table) -> Table:
    kept = [place for place, name in enumerate(shown.headings) if name not in shown.on_page_alone]
    table = bare_table(
        title=plain(shown.title),
        caption=plain(shown.caption),
        title_justify="left",
        caption_justify="left",
    )
    for place in kept:
        of_figures = any(isinstance(row[place], Figure) for row in shown.rows)
        table.add_column(
            plain(shown.headings[place]),
            justify="right" if place and (of_figures or not shown.wide) else "left",
        )
    for row in shown.rows:
        table.add_row(*(plain(str(row[place])) for place in kept))
    return table


def notes(notes: Iterable[str | None], said: list[str]) -> Iterator[str]:
    """Yield the notes that are not yet in `said`, and add them to it."""
    for note in notes:
        if note and note not in said:
            said.append(note)
            yield note
