"""The report's section on changes as lines for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchmark import change_words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from batchmark.changes_section import AlertBoard, ChangesSection
    from batchmark.report import Report


def change_lines(report: Report) -> Iterator[str]:
    """What changed, what re-runs said, and the alerts; the page has the histories."""
    if report.changes:
        yield from _found(report.changes, report.fell_back)
    if report.alerts:
        yield from _alerts(report.alerts)


def _found(found: ChangesSection, fell_back: Collection[str]) -> Iterator[str]:
    yield f"Changes: {change_words.summary(found)}"
    for note in found.notes:
        yield f"Note: {note}"
    for change in found.changes:
        yield f"  {change_words.title(change)}"
        yield from (f"    {line}" for line in change_words.lines(change))
    if found.confirmations:
        yield change_words.suspects(found.confirmations)
    for one in found.confirmations:
        target = change_words.target(one.series.target, fell_back)
        yield f"  {one.outcome}: {target}, {change_words.confirmation(one)} ({one.reason})"


def _alerts(board: AlertBoard) -> Iterator[str]:
    yield change_words.precision(board)
    for one in board.lines:
        note = f" ({one.note})" if one.note else ""
        yield (
            f"Alert {one.alert_id}, {one.state}: {one.title}, suite {one.suite}, since run "
            f"{one.since_run_id}{note}"
        )
    yield from board.how_to_change.splitlines()
