"""The table of the leak guard, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from batchmark.leak_records import VERDICTS

if TYPE_CHECKING:
    from batchmark.leak_records import GuardReport


def guard_table(report: GuardReport) -> Table:
    """The report for a terminal, the leaks first."""
    shown = Table(
        *("Kind", "Id", "What", "Target", "Since", "Verdict", "Why", "Done"),
        title=escape(
            f"What runs for {report.installation} in {report.region} at "
            f"{report.looked_at:%Y-%m-%d %H:%M %Z}: {report.summary}"
        ),
        caption=escape("; ".join(f"not looked at: {one}" for one in report.unread)) or None,
    )
    for verdict in VERDICTS:
        for one in report.of(verdict):
            cells = (one.kind, one.id, one.what, one.target or "-", f"{one.since:%Y-%m-%d %H:%M}")
            style = "bold red" if verdict == "leaked" else ""
            shown.add_row(*map(escape, (*cells, verdict, one.reason, one.action)), style=style)
    return shown
