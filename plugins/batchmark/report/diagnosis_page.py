"""Diagnoses of several queues as a table on a terminal and as one self-contained HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import AwareDatetime
from rich import box
from rich.table import Table
from rich.text import Text

from batchmark.diagnosis.records import Diagnosis
from batchmark.record import Record
from batchmark.report_page import page_templates

if TYPE_CHECKING:
    from rich.console import Console


class DiagnosisReport(Record):
    """What `diagnose_queue` found, one entry per queue."""

    created_at: AwareDatetime
    region: str
    diagnoses: tuple[Diagnosis, ...]


def render_table(report: DiagnosisReport, console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("queue", "job", "", "cause", "evidence", "remedy"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("", "cause"))
    for one in report.diagnoses:
        subject = (Text(one.queue), Text(one.job_id or "-"))
        for finding in one.findings:
            certainty = "certain" if finding.certain else "suspected"
            words = (certainty, finding.cause, finding.evidence, finding.remedy)
            table.add_row(*subject, *map(Text, words))
        if not one.findings:
            table.add_row(*subject, "", "", Text(one.summary), "")
        table.add_section()
    console.print(table)
    for one in report.diagnoses:
        for text in one.unread:
            console.print(Text(f"Not asked of {one.queue}: {text}"), soft_wrap=True)


def render_html(report: DiagnosisReport) -> str:
    return page_templates().get_template("diagnosis.html.jinja").render(report=report)
