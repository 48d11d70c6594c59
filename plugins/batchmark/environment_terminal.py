"""The table of the environment check, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from batchmark.environment_records import STATUSES

if TYPE_CHECKING:
    from batchmark.environment_records import EnvironmentCheck, Status

STYLES: dict[Status, str] = {"fail": "bold red", "warn": "yellow", "not checked": "dim", "ok": ""}


def check_table(result: EnvironmentCheck) -> Table:
    """The checks for a terminal, the worst first."""
    shown = Table(
        "Check",
        "Target",
        "Status",
        "Seen",
        "What to do",
        title=escape(
            f"Environment of {result.installation} in {result.region} at "
            f"{result.checked_at:%Y-%m-%d %H:%M %Z}: {result.summary}"
        ),
    )
    for status in STATUSES:
        for check in result.of(status):
            cells = (check.name, check.target, check.status, check.seen, check.remedy)
            shown.add_row(*map(escape, cells), style=STYLES[status])
    return shown
