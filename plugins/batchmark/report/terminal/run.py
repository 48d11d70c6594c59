"""The report as tables and lines on a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from rich.console import Console

from batchmark.core import formatting
from batchmark.report import change_words, words
from batchmark.report.answer import answer_lines, cost
from batchmark.report.changes import AlertBoard, ChangesSection
from batchmark.report.studies import sections
from batchmark.report.terminal.sections import notes, print_section
from batchmark.report.terminal.text import print_text

if TYPE_CHECKING:
    from batchmark.report.model import Report


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
