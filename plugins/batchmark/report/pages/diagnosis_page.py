"""Diagnoses of queues: causes, evidence, remedies."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import AwareDatetime

from batchmark.checks.diagnosis.records import Diagnosis
from batchmark.core import formatting
from batchmark.core.record import Record
from batchmark.report.blocks import Block, Page, Table, Text


class DiagnosisReport(Record):
    """What `diagnose_queue` found, with an entry per queue."""

    created_at: AwareDatetime
    region: str
    diagnoses: tuple[Diagnosis, ...]


def diagnosis_page(report: DiagnosisReport) -> Page:
    found = [one for one in report.diagnoses if one.findings]
    queues = formatting.count(len(report.diagnoses), "queue")
    return Page(
        "Diagnosis",
        f"{queues} in {report.region}, asked on {report.created_at:%Y-%m-%d %H:%M %Z}.",
        f"{len(found)} of {queues} with a cause.",
        [block for one in report.diagnoses for block in _blocks(one)],
    )


def _blocks(diagnosis: Diagnosis) -> Iterator[Block]:
    yield Text(diagnosis.summary, "summary")
    if diagnosis.findings:
        rows = [
            (f"{one.cause}, {one.certainty}", one.evidence, one.remedy)
            for one in diagnosis.findings
        ]
        yield Table(diagnosis.queue, "", ("Cause", "Evidence", "Remedy"), rows, wide=True)
    yield Text(f"Checked: {', '.join(diagnosis.checked) or 'nothing'}.")
    yield from (Text(f"Not asked: {one}", "warning") for one in diagnosis.unread)
