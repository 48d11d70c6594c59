"""Builds standalone tables: a run's maximum and actual cost, noise, and alerts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from batchmark.analysis.cost import RunCost
from batchmark.analysis.judging.noise import JOBS_A_SIDE, NoiseTable
from batchmark.changes.alerts.outbox import RunMessage
from batchmark.changes.alerts.records import Alert
from batchmark.core import formatting
from batchmark.core.prices import PriceTable
from batchmark.core.run import WorstCase
from batchmark.report.blocks import Block, Remarks, Table, Text, capitalized
from batchmark.report.changes import words as change_words
from batchmark.report.words import JOB_COSTS, OPTIONS, row_name
from batchmark_job.result.confidence import CONFIDENCE_TEXT


def worst_case_table(worst: WorstCase) -> Table:
    """List the most that each target's jobs and any file system can cost, with the total."""
    rows = [
        (
            target.target,
            str(target.jobs)
            if target.instances is None
            else f"{target.jobs} of {target.instances} nodes in all",
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
    return Table(
        "What this run can cost at most",
        "At most: jobs x submissions x attempts x timeout x price, rounded up to cents.",
        ("Target", "Jobs", "Submissions", "Attempts", "Timeout", "USD per hour", "At most"),
        [*rows, ("all", *[""] * 5, amount(worst.usd))],
        wide=True,
    )


def worst_case_blocks(worst: WorstCase) -> list[Block]:
    prices = f"On-Demand prices in {worst.region} as of {worst.prices_as_of}."
    source = f"{prices} Source: {worst.prices_source}"
    return [worst_case_table(worst), Text(source), Remarks(worst.notes)]


def cost_blocks(cost: RunCost, prices: PriceTable) -> list[Block]:
    rows = [
        (
            job.job_id or "never submitted",
            job.target,
            OPTIONS[job.purchase_option] if job.purchase_option else "?",
            str(job.repeat),
            "?" if job.seconds is None else formatting.seconds(job.seconds),
            amount(job.usd),
        )
        for job in cost.jobs
    ]
    table = Table(
        "What this run's jobs cost",
        f"{capitalized(JOB_COSTS)}.",
        ("Job", "Target", "Bought", "Repeat", "Container time", "Cost"),
        [*rows, ("all", *[""] * 4, amount(cost.usd))],
        wide=True,
    )
    reasons = dict.fromkeys(filter(None, (cost.reason, *(job.reason for job in cost.jobs))))
    source = f"Prices in {prices.region} as of {prices.as_of}. Source: {prices.source}"
    known = any(job.usd is not None for job in cost.jobs)
    return [table, *([Text(source)] if known else []), Remarks(list(reasons))]


def amount(usd: float | None) -> str:
    return "?" if usd is None else formatting.usd(usd)


def noise_table(table: NoiseTable) -> Table:
    """List a calibration's rows with their noise."""
    sides = [f"{formatting.count(jobs, 'job')} a side" for jobs in JOBS_A_SIDE]
    return Table(
        f"{table.target}, suite {table.suite}, {formatting.count(table.jobs, 'job')}",
        f"Noise (1 sd, and at most this at {CONFIDENCE_TEXT}), and the smallest change that is "
        "found 95 times in 100.",
        ("Row", "Code", "Median", "Noise", *sides),
        [
            (
                row_name(row.row),
                ", ".join(row.implementations),
                formatting.seconds(row.median_seconds),
                f"{formatting.noise(row.floor)} (at most {formatting.noise(row.floor_upper)})",
                *(formatting.noise(row.smallest_detectable_change[jobs]) for jobs in JOBS_A_SIDE),
            )
            for row in table.rows
        ],
        wide=True,
    )


def alert_table(alerts: Iterable[Alert], title: str) -> Table:
    rows = []
    for alert in alerts:
        last, change = alert.transitions[-1], alert.change
        state = f"{last.state} {last.at:%Y-%m-%d %H:%M} by {last.by}"
        rows.append(
            (
                alert.id,
                change_words.title(change),
                f"{change_words.first_run(change)} ({change.first_run_id})",
                f"{state}: {last.note}" if last.note else state,
            )
        )
    return Table(title, "", ("Alert", "What", "Since run", "State"), rows, wide=True)


def delivery_lines(message: RunMessage) -> Iterator[str]:
    for delivery in message.deliveries:
        tried = (
            f" at {formatting.moment(delivery.at)}, try {delivery.attempts}" if delivery.at else ""
        )
        reason = f": {delivery.reason}" if delivery.reason else ""
        yield f"{delivery.channel}: {delivery.state}{tried}{reason}"
