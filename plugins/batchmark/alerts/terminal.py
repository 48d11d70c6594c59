"""Alerts and their messages' ways, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from batchmark import change_words

if TYPE_CHECKING:
    from batchmark.alerts.outbox import RunMessage
    from batchmark.alerts.records import Alert


def alert_table(alerts: Iterable[Alert], title: str) -> Table:
    table = Table("Alert", "What", "Suite", "Since run", "State", title=escape(title))
    for alert in alerts:
        last, change = alert.transitions[-1], alert.change
        state = f"{last.state} {last.at:%Y-%m-%d %H:%M} by {last.by}"
        cells = (
            alert.id,
            change_words.title(change),
            change.points[0].series.suite,
            change.first_run_id,
            f"{state}: {last.note}" if last.note else state,
        )
        table.add_row(*map(escape, cells))
    return table


def delivery_lines(message: RunMessage) -> Iterator[str]:
    """How far a message came on each channel."""
    for one in message.deliveries:
        tried = f" at {one.at:%Y-%m-%d %H:%M %Z}, try {one.attempts}" if one.at else ""
        held = message.hold_until if one.state == "pending" else None
        until = f", held until {held:%Y-%m-%d %H:%M %Z}" if held else ""
        reason = f": {one.reason}" if one.reason else ""
        yield f"{one.channel}: {one.state}{tried}{until}{reason}"
