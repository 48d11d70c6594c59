"""Studies of a report as tables and lines on a terminal: shared devices, nodes, own jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from batchmark.analysis.cold_start import ColdStart
from batchmark.core import formatting
from batchmark.report import words
from batchmark.report.own_jobs import words as own_job_words
from batchmark.report.own_jobs.tables import tables as own_job_tables
from batchmark.report.scaling import tables as scaling_tables
from batchmark.report.scaling import words as scaling_words
from batchmark.report.sharing.tables import curve_tables, other_lines
from batchmark.report.sharing.words import codes, task_name
from batchmark.report.study_parts import StudyTable
from batchmark.report.terminal.text import clean, print_text

if TYPE_CHECKING:
    from batchmark.analysis.own_jobs.records import OwnJobStudy
    from batchmark.analysis.pooling import TargetRecord
    from batchmark.analysis.scaling.studies import ScalingStudy
    from batchmark.analysis.sharing.tasks import SharedTask


def print_shared_task(task: SharedTask, console: Console) -> None:
    print_text(console, f"{task_name(task)}, suite {task.suite}", "bold")
    print_text(console, codes(task))
    for table in curve_tables(task):
        console.print(table)
    for line in other_lines(task):
        print_text(console, line)
    _print_traces(task.target, console)


def print_scaling(study: ScalingStudy, console: Console) -> None:
    print_text(console, f"{scaling_words.where(study)}, {study.dtype}, suite {study.suite}", "bold")
    if study.refused:
        print_text(console, f"Not judged: {study.refused}", "yellow")
    for training in scaling_words.trainings(study):
        print_text(console, scaling_words.training_name(study, training), "bold")
        print_text(console, scaling_words.codes(training))
        for table in scaling_tables.training_tables(study, training):
            _print_table(table, console)
    published = scaling_tables.published_table(study)
    for table in (*([published] if published else []), *scaling_tables.study_tables(study)):
        _print_table(table, console)
    for line in scaling_words.remarks(study):
        print_text(console, line)
    _print_traces(study.target, console)


def print_own_job(study: OwnJobStudy, console: Console, said: list[str]) -> None:
    """Its jobs are counted; they are many, and the page has them with their logs."""
    print_text(console, f"{own_job_words.heading(study)}, suite {study.suite}", "bold")
    if prices := own_job_words.prices(study):
        print_text(console, prices)
    for table in own_job_tables(study):
        _print_table(table, console)
    for text in own_job_words.remarks(study):
        print_text(console, text)
    for side in study.sides:
        if told := own_job_words.bad_lines(side):
            print_text(console, f"{told}:")
        for line in side.bad_lines:
            print_text(console, f"  {own_job_words.bad_line(line)}: {line.text}")
    for side in study.sides:
        name = words.measured_target(side.target)
        for text in cold_start_lines(side.cold_start, name, said):
            print_text(console, text)
        jobs = formatting.count(len(side.target.jobs), "job")
        print_text(console, f"{name}: {jobs}; logs and documents: see the page")


def _print_table(shown: StudyTable, console: Console) -> None:
    table = Table(
        title=Text(clean(shown.title)),
        caption=Text(clean(shown.caption)),
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 0, 0, 1),
    )
    for place, heading in enumerate(shown.headings):
        table.add_column(heading, justify="right" if place else "left")
    for row in shown.rows:
        table.add_row(*(Text(clean(str(figure))) for figure in row))
    console.print(table)


def _print_traces(target: TargetRecord, console: Console) -> None:
    for job in target.jobs:
        print_text(
            console, f"{job.job_id} attempt {job.job_attempt}, log {job.log_group} {job.log_stream}"
        )
        print_text(console, f"    {job.log_url}\n    {job.document_uri}")


def notes(notes: Iterable[str | None], said: list[str]) -> Iterator[str]:
    """Those that were not said yet; they are said now."""
    for note in notes:
        if note and note not in said:
            said.append(note)
            yield f"Note: {note}"


def cold_start_lines(start: ColdStart | None, label: str, said: list[str]) -> Iterable[str]:
    if start is None:
        return
    jobs = f"median of {start.jobs} jobs" if start.jobs > 1 else "one job"
    usd = ""
    if start.usd:
        usd = f", at least {formatting.usd(start.usd)}, billed from {start.billed_from} on"
    span = words.cold_start_span(start)
    yield f"{label}, {span}: {formatting.seconds(start.seconds)}{usd} ({jobs})"
    yield "  " + "; ".join(
        f"{step.name} {formatting.seconds(step.seconds)}" for step in start.steps
    )
    yield from (f"  {note}" for note in notes(start.notes, said))
