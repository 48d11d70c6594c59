"""Builds blocks for changes, re-runs and alerts, and a small chart for each changed figure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from batchmark.changes.records import Change, ChangePoint, Level
from batchmark.core import formatting
from batchmark.core.formatting import Figure
from batchmark.report import blocks
from batchmark.report.change_records import AlertBoard, ChangesSection, SeriesTrace
from batchmark.report.changes import words
from batchmark.report.model import Report

MARGIN = 0.08  # of a chart's width and height
LEAST_RANGE = 0.02  # of a chart's values, as a share of the level: less would make noise look large


def section(report: Report) -> blocks.Section | None:
    """Build the section on changes; None if the first screen already says everything."""
    if not report.tells_of_changes:
        return None
    shown = [
        *(_changes(report.changes, report.fell_back) if report.changes else ()),
        *(_alerts(report.alerts) if report.alerts else ()),
    ]
    return blocks.Section("changes", "Changes", shown)


def _changes(found: ChangesSection, fell_back: Collection[str]) -> Iterator[blocks.Block]:
    if not found.too_early:  # said on the first screen
        yield blocks.Text(words.summary(found), "summary")
        yield blocks.Text(words.ROWS)
    yield from (blocks.Text(note, "warning") for note in found.notes)
    for change in found.changes:
        yield blocks.ChangeDetails(
            words.title(change),
            change.points[0].worse,
            list(words.facts(change)),
            [_row(point, change, found) for point in change.points],
            list(words.lines(change)),
        )
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
            f"{words.suspects(found.confirmations)} The table shows this run's rows that deviate "
            "by more than their own noise, and what fresh jobs measured."
        )
        yield blocks.Table("Re-runs", caption, ("Target", "Figures", "Verdict"), rows, wide=True)


def _row(point: ChangePoint, change: Change, found: ChangesSection) -> blocks.ChangedRow:
    over = f" over {point.series.against}" if point.series.against else ""
    trace = found.trace(point)
    return blocks.ChangedRow(
        point.series.row,
        f"{words.target(point.series.target, change.fell_back)}{over}",
        _level(point.before, point),
        _level(point.after, point),
        Figure(words.share(point, point.change), words.p_value(point)),
        history_chart(trace, point) if trace else None,
    )


def _level(level: Level, point: ChangePoint) -> Figure:
    return Figure(words.value(level.median, point.metric, point.series), words.level(level))


def _alerts(board: AlertBoard) -> Iterator[blocks.Block]:
    if not board.lines:
        yield blocks.Text("No alert is open.")
        return
    rows = [
        (
            f"{alert.title} ({alert.alert_id}, suite {alert.suite})",
            blocks.Link(f"{alert.state}: change it", alert.change_url)
            if alert.change_url
            else alert.state,
            alert.note or "",
            f"{alert.since} ({alert.since_run_id})" if alert.since else alert.since_run_id,
        )
        for alert in board.lines
    ]
    heads = ("Alert", "State", "Note", "Since run")
    caption = (
        "Alerts that are not closed, with their figures from when they were raised; the changes "
        "above also count the runs since then."
    )
    yield blocks.Table("Alerts", caption, heads, rows, wide=True)
    yield from map(blocks.Text, board.how_to_change.splitlines())


def history_chart(trace: SeriesTrace, point: ChangePoint) -> blocks.HistoryChart:
    """Chart a trace, with outliers drawn at the edge so that they don't flatten the rest."""
    metric, series = point.metric, point.series
    values = np.array([words.read(value, metric, series) for value in trace.values])
    levels = [words.read(level.median, metric, series) for level in (point.before, point.after)]
    low, high = np.quantile(values, (0.05, 0.95))
    low, high = min(low, *levels), max(high, *levels)
    missing = max(0.0, LEAST_RANGE * max(levels) - (high - low)) / 2
    low, high = low - missing, high + missing
    last = max(1, values.size - 1)

    def x(place: int) -> float:
        return _percent(place / last)

    def y(value: float) -> float:
        return _percent(1 - min(1.0, max(0.0, (value - low) / (high - low))))

    start = max(0, trace.first - point.before.runs)
    end = min(values.size, trace.first + point.after.runs) - 1
    return blocks.HistoryChart(
        low=words.value_text(max(0.0, low), metric, series),
        high=words.value_text(max(0.0, high), metric, series),
        dots=[(x(place), y(value), place >= trace.first) for place, value in enumerate(values)],
        before=(x(start), x(max(start, trace.first - 1)), y(levels[0])),
        after=(x(trace.first), x(end), y(levels[1])),
        span=f"{formatting.count(values.size, 'run')} since {trace.recorded_at[0]:%Y-%m-%d}",
    )


def _percent(share: float) -> float:
    return round(100 * (MARGIN + (1 - 2 * MARGIN) * float(share)), 2)
