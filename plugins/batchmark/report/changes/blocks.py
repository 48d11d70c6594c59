"""What changed, re-runs and alerts, as blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from batchmark.changes.records import Change, ChangePoint, Level
from batchmark.core import formatting
from batchmark.core.formatting import Figure
from batchmark.report.blocks import Block, ChangeDetails, ChangedRow, Link, Section, Table, Text
from batchmark.report.change_records import AlertBoard, ChangesSection
from batchmark.report.changes import words
from batchmark.report.changes.chart import history_chart
from batchmark.report.model import Report


def section(report: Report) -> Section | None:
    """None where the first screen says all there is."""
    if not report.tells_of_changes:
        return None
    blocks = [
        *(_changes(report.changes, report.fell_back) if report.changes else ()),
        *(_alerts(report.alerts) if report.alerts else ()),
    ]
    return Section("changes", "Changes", blocks)


def _changes(found: ChangesSection, fell_back: Collection[str]) -> Iterator[Block]:
    if not found.too_early:  # said on the first screen
        yield Text(words.summary(found), "summary")
    yield from (Text(note, "warning") for note in found.notes)
    yield from (_details(change, found) for change in found.changes)
    if found.confirmations:
        rows = [
            (
                words.target(one.series.target, fell_back),
                words.confirmation(one),
                f"{one.outcome} ({one.reason})",
            )
            for one in found.confirmations
        ]
        caption = (
            f"{words.suspects(found.confirmations)} Rows of this run beyond their own noise, and "
            "what fresh jobs measured."
        )
        yield Table("Re-runs", caption, ("Target", "Figures", "Verdict"), rows, wide=True)


def _details(change: Change, found: ChangesSection) -> ChangeDetails:
    return ChangeDetails(
        words.title(change),
        change.points[0].worse,
        list(words.facts(change)),
        [_row(point, change, found) for point in change.points],
        list(words.lines(change)),
    )


def _row(point: ChangePoint, change: Change, found: ChangesSection) -> ChangedRow:
    over = f" over {point.series.against}" if point.series.against else ""
    trace = found.trace(point)
    return ChangedRow(
        point.series.row,
        f"{words.target(point.series.target, change.fell_back)}{over}",
        _level(point.before, point),
        _level(point.after, point),
        Figure(words.share(point, point.change), words.p_value(point)),
        history_chart(trace, point) if trace else None,
    )


def _level(level: Level, point: ChangePoint) -> Figure:
    return Figure(words.value(level.median, point.metric, point.series), words.level(level))


def _alerts(board: AlertBoard) -> Iterator[Block]:
    if not board.lines:
        yield Text("No alert is open.")
        return
    rows = [
        (
            f"{alert.title} ({alert.alert_id}, suite {alert.suite})",
            formatting.change(alert.change),
            Link(f"{alert.state}: change it", alert.change_url)
            if alert.change_url
            else alert.state,
            alert.note or "",
            alert.since_run_id,
        )
        for alert in board.lines
    ]
    heads = ("Alert", "Change", "State", "Note", "Since run")
    yield Table("Alerts", "Alerts that are not closed.", heads, rows, wide=True)
    yield from map(Text, board.how_to_change.splitlines())
