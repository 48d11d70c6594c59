"""The report's section on changes as lines for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchmark import change_words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from batchmark.change_records import Change
    from batchmark.changes_section import AlertBoard, ChangesSection
    from batchmark.report import Report

MOST_POINTS = 6  # of a change that are printed


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
        yield from _points(change)
        for name, lines in change_words.facts(change):
            yield f"    {name}: {'; '.join(lines)}"
    if found.confirmations:
        yield change_words.suspects(found.confirmations)
    for one in found.confirmations:
        target = change_words.target(one.series.target, fell_back)
        yield f"  {one.outcome}: {target}, {change_words.confirmation(one)} ({one.reason})"


def _points(change: Change) -> Iterator[str]:
    for point in change.points[:MOST_POINTS]:
        levels = f"{change_words.level(point.before)}; then {change_words.level(point.after)}"
        name = change_words.row(point.series)
        if len(change.targets) > 1:
            name = f"{change_words.target(point.series.target, change.fell_back)}, {name}"
        yield (
            f"    {name}: {change_words.movement(point)} ({levels}; {change_words.p_value(point)})"
        )
    if (more := len(change.points) - MOST_POINTS) > 0:
        yield f"    and {more} more, on the page"


def _alerts(board: AlertBoard) -> Iterator[str]:
    yield change_words.precision(board)
    for one in board.lines:
        note = f" ({one.note})" if one.note else ""
        yield f"Alert {one.state}: {one.title}, since run {one.since_run_id}{note}"
