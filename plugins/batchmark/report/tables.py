"""Small tables on a terminal: what a run may cost and did cost, noise, checks, leaks, alerts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from batchmark.analysis.cost import RunCost
from batchmark.analysis.judging.calibration import CalibrationReport
from batchmark.analysis.judging.noise import JOBS_A_SIDE, NoiseTable, RowName
from batchmark.changes.alerts.outbox import RunMessage
from batchmark.changes.alerts.records import Alert
from batchmark.checks.leak_records import VERDICTS, GuardReport
from batchmark.checks.records import STATUSES, EnvironmentCheck, Status
from batchmark.core import formatting
from batchmark.core.formatting import some
from batchmark.core.run import TargetWorst, WorstCase
from batchmark.report import change_words
from batchmark.report.site.compare import Comparison
from batchmark.report.words import JOB_COSTS, OPTIONS, row_label
from batchmark_job.result.values import CONFIDENCE_TEXT

STYLES: dict[Status, str] = {"fail": "bold red", "warn": "yellow", "not checked": "dim", "ok": ""}

RIGHT: Final = "right"
LONGEST_WORKLOAD = len("attention_backward")  # of ours; a narrower column would cut it

WORST_CASE_HEADS = (
    "Target",
    "Jobs",
    "Submissions",
    "Attempts",
    "Timeout",
    "USD per hour",
    "At most",
)


def worst_case_rows(worst: WorstCase) -> list[tuple[str, ...]]:
    """Each target, its jobs and what they can cost at most, and the sum; see WORST_CASE_HEADS."""
    rows = [
        (
            target.target,
            _jobs(target),
            str(target.submissions),
            str(target.attempts),
            f"{target.timeout_seconds} s{target.idle}",
            "?" if target.usd_per_hour is None else f"{target.usd_per_hour:g}",
            amount(target.usd),
        )
        for target in worst.targets
    ]
    if layer := worst.file_system:
        price = "?" if layer.usd_per_gb_month is None else f"{layer.usd_per_gb_month:g} a GB-month"
        size = f"{layer.storage_gib:,} GiB"
        file_system = (f"file system, {layer.kind}", size, "", "", f"{layer.seconds} s", price)
        rows.append((*file_system, amount(layer.usd)))
    return [*rows, ("all", *[""] * 5, amount(worst.usd))]


def _jobs(target: TargetWorst) -> str:
    if target.instances is None:
        return str(target.jobs)
    return f"{target.jobs} of {target.instances} nodes in all"


def render_worst_case(worst: WorstCase, console: Console) -> None:
    table = Table(title="What this run can cost at most")
    first, *others = WORST_CASE_HEADS
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify=RIGHT)
    *rows, total = worst_case_rows(worst)
    for row in rows:
        table.add_row(*map(escape, row))
    table.add_section()
    table.add_row(*total)
    console.print(table)
    _print(
        console,
        f"On-Demand prices of {worst.region} as of {worst.prices_as_of}. "
        f"Source: {worst.prices_source}",
        *worst.notes,
    )


def render_comparison(comparison: Comparison, console: Console, names: tuple[str, str]) -> None:
    """Two sides row by row, in 80 columns; `names` are those of the sides, in the heads."""
    _print(console, comparison.answer)
    for one, rows in comparison.views():
        if one.refused:
            _print(console, f"{one.suite} is not compared: {one.refused}")
            continue
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
        table.add_column(f"suite {escape(one.suite)}", min_width=LONGEST_WORKLOAD)
        for heading in (*names, f"speedup\n[{CONFIDENCE_TEXT}]", f"{names[0]} is"):
            table.add_column(escape(heading), justify=RIGHT, no_wrap=True)
        for view in rows:
            figures = (view.first, view.second, formatting.factor(view.row.speedup))
            table.add_row(
                escape(view.name),
                *(escape("\n".join(filter(None, figure))) for figure in figures),
                view.word.replace("known ", "known\n"),
            )
        console.print(table)
        for uncompared in one.uncompared:
            _print(console, f"Not compared: {row_label(uncompared)}: {uncompared.reason}")
    _print(console, *comparison.remarks)
    for name, first, second in comparison.differences:
        _print(console, f"Differs: {name} {second} \N{RIGHTWARDS ARROW} {first}")


def render_costs(cost: RunCost, console: Console) -> None:
    table = Table(title="What this run's jobs cost", caption=JOB_COSTS)
    for heading in ("Job", "Target", "Bought"):
        table.add_column(heading)
    for heading in ("Repeat", "Container time", "Cost"):
        table.add_column(heading, justify=RIGHT)
    for job in cost.jobs:
        table.add_row(
            escape(job.job_id or "never submitted"),
            escape(job.target),
            OPTIONS[job.purchase_option] if job.purchase_option else "?",
            str(job.repeat),
            "?" if job.seconds is None else formatting.seconds(job.seconds),
            amount(job.usd),
        )
    table.add_section()
    table.add_row("all", *[""] * 4, amount(cost.usd))
    console.print(table)
    _print(console, *dict.fromkeys(filter(None, (cost.reason, *(job.reason for job in cost.jobs)))))


def amount(usd: float | None) -> str:
    return "?" if usd is None else formatting.usd(usd)


def _print(console: Console, *lines: str) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False)


def render_calibration(report: CalibrationReport, console: Console) -> None:
    for calibration in report.calibrations:
        for notice in calibration.notices:
            console.print(f"[bold]{escape(notice)}[/bold]")
        console.print(noise_rows(calibration.table))
        for left_out in calibration.table.left_out:
            console.print(escape(f"left out: {_name(left_out.row)}: {left_out.reason}"))
        if check := calibration.self_check:
            names = some([_name(row) for row in check.different])
            console.print(
                f"A/A: odd repeats against even ones, {len(check.different)} of "
                f"{formatting.count(check.rows, 'row')} "
                f"called different{escape(names and f' ({names})')}\n"
            )
    for reason in report.refused:
        console.print(f"[bold]No calibration:[/bold] {escape(reason)}")


def noise_rows(table: NoiseTable) -> Table:
    """A calibration's rows with their noise."""
    shown = Table(
        "Row",
        "Code",
        "Median",
        "Noise from job to job",
        *(f"{jobs} a side" for jobs in JOBS_A_SIDE),
        title=escape(
            f"{table.target}, suite {table.suite}: noise over "
            f"{formatting.count(table.jobs, 'job')} (1 sd, at most this at {CONFIDENCE_TEXT}), and "
            "the smallest change that a comparison finds 95 times in 100"
        ),
    )
    for row in table.rows:
        shown.add_row(
            escape(_name(row.row)),
            escape(", ".join(row.implementations)),
            formatting.seconds(row.median_seconds),
            f"{formatting.noise(row.floor)} ({formatting.noise(row.floor_upper)})",
            *(formatting.noise(row.smallest_detectable_change[jobs]) for jobs in JOBS_A_SIDE),
        )
    return shown


def _name(row: RowName) -> str:
    return formatting.row(row.workload, row.parameters, row.dtype)


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
    for delivery in message.deliveries:
        tried = (
            f" at {delivery.at:%Y-%m-%d %H:%M %Z}, try {delivery.attempts}" if delivery.at else ""
        )
        reason = f": {delivery.reason}" if delivery.reason else ""
        yield f"{delivery.channel}: {delivery.state}{tried}{reason}"


def check_table(result: EnvironmentCheck) -> Table:
    """The environment's checks, the worst first."""
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


def guard_table(report: GuardReport) -> Table:
    """What runs for the installation, the leaks first."""
    shown = Table(
        *("Kind", "Id", "What", "Target", "Since", "Verdict", "Why", "Done"),
        title=escape(
            f"What runs for {report.installation} in {report.region} at "
            f"{report.looked_at:%Y-%m-%d %H:%M %Z}: {report.summary}"
        ),
        caption=escape("; ".join(f"not looked at: {finding}" for finding in report.unread)) or None,
    )
    for verdict in VERDICTS:
        for finding in report.of(verdict):
            cells = (
                finding.kind,
                finding.id,
                finding.what,
                finding.target or "-",
                f"{finding.since:%Y-%m-%d %H:%M}",
            )
            style = "bold red" if verdict == "leaked" else ""
            shown.add_row(
                *map(escape, (*cells, verdict, finding.reason, finding.action)), style=style
            )
    return shown
