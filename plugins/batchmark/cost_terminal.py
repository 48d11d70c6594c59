"""Money as tables on a terminal: what a run can cost at most, and what it did cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.markup import escape
from rich.table import Table

from batchmark import figures
from batchmark.report_words import JOB_COSTS, OPTIONS

if TYPE_CHECKING:
    from rich.console import Console

    from batchmark.budget import WorstCase
    from batchmark.cost import RunCost

RIGHT: Final = "right"


def render_worst_case(worst: WorstCase, console: Console) -> None:
    table = Table(title="What this run can cost at most")
    table.add_column("Target")
    for heading in ("Jobs", "Submissions", "Attempts", "Timeout", "USD per hour", "At most"):
        table.add_column(heading, justify=RIGHT)
    for one in worst.targets:
        table.add_row(
            escape(one.target),
            str(one.jobs),
            str(one.submissions),
            str(one.attempts),
            f"{one.timeout_seconds} s",
            "?" if one.usd_per_hour is None else f"{one.usd_per_hour:g}",
            amount(one.usd),
        )
    table.add_section()
    table.add_row("all", *[""] * 5, amount(worst.usd))
    console.print(table)
    _print(
        console,
        f"On-Demand prices of {worst.region} as of {worst.prices_as_of}. "
        f"Source: {worst.prices_source}",
        *worst.notes,
    )


def render_costs(cost: RunCost, console: Console) -> None:
    table = Table(title="What this run's jobs cost", caption=JOB_COSTS)
    for heading in ("Job", "Target", "Bought"):
        table.add_column(heading)
    for heading in ("Repeat", "Container time", "Cost"):
        table.add_column(heading, justify=RIGHT)
    for one in cost.jobs:
        table.add_row(
            escape(one.job_id or "never submitted"),
            escape(one.target),
            OPTIONS[one.purchase_option] if one.purchase_option else "?",
            str(one.repeat),
            "?" if one.seconds is None else figures.seconds(one.seconds),
            amount(one.usd),
        )
    table.add_section()
    table.add_row("all", *[""] * 4, amount(cost.usd))
    console.print(table)
    _print(console, *dict.fromkeys(filter(None, (cost.reason, *(one.reason for one in cost.jobs)))))


def amount(usd: float | None) -> str:
    return "?" if usd is None else figures.usd(usd)


def _print(console: Console, *lines: str) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False)
