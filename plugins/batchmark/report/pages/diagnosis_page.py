"""Diagnoses of queues as a table on a terminal and as a self-contained HTML page."""

from __future__ import annotations

from pydantic import AwareDatetime
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from batchmark.checks.diagnosis.records import Diagnosis
from batchmark.core.record import Record
from batchmark.report.page import page_templates


class DiagnosisReport(Record):
    """What `diagnose_queue` found, with an entry per queue."""

    created_at: AwareDatetime
    region: str
    diagnoses: tuple[Diagnosis, ...]


def render_table(report: DiagnosisReport, console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("queue", "job", "", "cause", "evidence", "remedy"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("", "cause"))
    for diagnosis in report.diagnoses:
        subject = (Text(diagnosis.queue), Text(diagnosis.job_id or "-"))
        for finding in diagnosis.findings:
            certainty = "certain" if finding.certain else "suspected"
            words = (certainty, finding.cause, finding.evidence, finding.remedy)
            table.add_row(*subject, *map(Text, words))
        if not diagnosis.findings:
            table.add_row(*subject, "", "", Text(diagnosis.summary), "")
        table.add_section()
    console.print(table)
    for diagnosis in report.diagnoses:
        for text in diagnosis.unread:
            console.print(Text(f"Not asked of {diagnosis.queue}: {text}"), soft_wrap=True)


def render_html(report: DiagnosisReport) -> str:
    return page_templates().get_template("diagnosis.html.jinja").render(report=report)
