"""Builds pages with an answer and tables: checks, diagnoses, plans, leaks and noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import AwareDatetime

from batchmark.analysis.cost import BOOT_AND_IDLING, boot_and_idling_usd
from batchmark.analysis.judging.calibration import Calibration, CalibrationReport
from batchmark.checks.diagnosis.records import Diagnosis
from batchmark.checks.leak_records import VERDICTS, GuardReport
from batchmark.checks.records import STATUSES, EnvironmentCheck
from batchmark.core import formatting
from batchmark.core.record import Record
from batchmark.core.run import RunPlan, WorstCase
from batchmark.report.blocks import Block, Page, Table, Text
from batchmark.report.tables import noise_table, worst_case_table
from batchmark.report.words import extent, row_name


class DiagnosisReport(Record):
    """The results of `diagnose_queue`, with one entry per queue."""

    created_at: AwareDatetime
    region: str
    diagnoses: tuple[Diagnosis, ...]


def diagnosis_page(report: DiagnosisReport) -> Page:
    found = [one for one in report.diagnoses if one.findings]
    queues = formatting.count(len(report.diagnoses), "queue")
    return Page(
        "Diagnosis",
        f"{queues} in {report.region}, asked on {formatting.moment(report.created_at)}.",
        f"{len(found)} of {queues} with a cause.",
        [block for one in report.diagnoses for block in _diagnosis(one)],
    )


def _diagnosis(diagnosis: Diagnosis) -> Iterator[Block]:
    yield Text(diagnosis.summary, "summary")
    if diagnosis.findings:
        rows = [
            (f"{one.cause}, {one.certainty}", one.evidence, one.remedy)
            for one in diagnosis.findings
        ]
        yield Table(diagnosis.queue, "", ("Cause", "Evidence", "Remedy"), rows, wide=True)
    yield Text(f"Checked: {', '.join(diagnosis.checked) or 'nothing'}.")
    yield from (Text(f"Not asked: {one}", "warning") for one in diagnosis.unread)


def environment_page(result: EnvironmentCheck) -> Page:
    """Show the environment's checks, with those that need action first and the rest collapsed."""
    good, wanting = result.of("ok"), [one for one in STATUSES if one != "ok"]
    rows = [
        (check.name, check.target, check.status, check.seen, check.remedy)
        for status in wanting
        for check in result.of(status)
    ]
    heads = ("Check", "Target", "Status", "Seen", "What to do")
    passed = Table(
        f"{len(good)} passed",
        "",
        ("Check", "Target", "Seen"),
        [(check.name, check.target, check.seen) for check in good],
        folded=True,
        wide=True,
    )
    count = formatting.count(len(result.checks), "check")
    failed = result.of("fail")
    if failed:
        names = formatting.shortened_list([f"{check.name} of {check.target}" for check in failed])
        answer = f"{len(failed)} of {count} failed, so no job is submitted: {names}."
    elif rows:
        answer = f"No check failed; {len(rows)} of {count} need attention."
    else:
        answer = f"All {count} passed: jobs can run."
    return Page(
        "Environment",
        f"{result.installation} in {result.region}, "
        f"checked on {formatting.moment(result.checked_at)}: {result.summary}.",
        answer,
        [*([Table("What needs attention", "", heads, rows, wide=True)] if rows else []), passed],
    )


def plan_page(
    plan: RunPlan,
    worst: WorstCase,
    refused: Sequence[str],
    *,
    forecast: str = "",
    where: str = "",
) -> Page:
    """Show what a run would submit and its maximum cost; `refused` says why it would be refused.

    `where` is appended to the cost; `forecast` says what the run's schedule will cost.
    """
    jobs = formatting.count(len(plan.jobs), "job")
    would = f"The run would {'be refused' if refused else 'start'}."
    return Page(
        "Dry run",
        f"Run {plan.run_id}: nothing was submitted. On-Demand prices in {worst.region} as of "
        f"{worst.prices_as_of}.",
        f"{jobs} can cost {worst.most} at most{where}. {_on_top(worst, where)} {would}",
        [worst_case_table(worst), *([Text(forecast, "summary")] if forecast else [])],
        warnings=refused,
        notices=[] if where else worst.notes,
    )


def _on_top(worst: WorstCase, where: str) -> str:
    """Say what boot and idling add, with dollars if each target's price is known."""
    costs = ""
    if usd := boot_and_idling_usd(worst):
        costs = f": {extent(usd, formatting.usd)} for one instance of each target"
    least, most = BOOT_AND_IDLING
    on_top = f"come on top{' in AWS' if where else ''}{costs}"
    return f"Boot and idling of each instance, {least} to {most} minutes, {on_top}."


def guard_page(report: GuardReport) -> Page:
    """Show everything that is running, leaks first."""
    rows = [
        (
            f"{one.kind} {one.id}",
            one.what,
            one.target or "",
            f"{one.since:%Y-%m-%d %H:%M}",
            one.verdict,
            " ".join(filter(None, (one.reason, one.action))),
        )
        for verdict in VERDICTS
        for one in report.of(verdict)
    ]
    heads = ("Resource", "What", "Target", "Since (UTC)", "Verdict", "Why, and what was done")
    leaked = len(report.of("leaked"))
    if leaked:
        answer = (
            f"{formatting.count(leaked, 'leak')}: something that no run needs is costing money."
        )
    elif report.unread:
        answer = "No leak was found, but not everything could be checked."
    else:
        answer = f"No leak: {report.summary}."
    return Page(
        "Leak guard",
        f"{report.installation} in {report.region}, "
        f"checked on {formatting.moment(report.looked_at)}: {report.summary}.",
        answer,
        [Table("What is running, leaks first", "", heads, rows, wide=True)] if rows else [],
        warnings=[f"Not checked: {text}" for text in report.unread],
    )


def noise_page(report: CalibrationReport, kept: Sequence[str] = ()) -> Page:
    """Show each target's noise; `kept` says which older tables stay in use, and why."""
    found = report.calibrations
    floors = [row.floor for calibration in found for row in calibration.table.rows if row.floor < 1]
    if not found:
        answer = "Noise is not known: no target had enough jobs."
    elif floors:
        answer = (
            f"Depending on the row, identical jobs differ by {extent(floors, formatting.percent)} "
            f"(1 sd), on {formatting.count(len(found), 'target')}."
        )
    else:
        answer = "Not known: there were too few jobs to estimate the noise."
    return Page(
        "Noise",
        f"Calibration run {report.run_id}.",
        answer,
        [block for calibration in found for block in _noise(calibration)],
        warnings=[*(f"No calibration: {text}" for text in report.refused), *_too_few(found), *kept],
        notices=list(dict.fromkeys(text for one in found for text in one.notices)),
    )


def _too_few(found: Sequence[Calibration]) -> Iterator[str]:
    fewest = min((one.table.jobs for one in found), default=0)
    unknown = any(
        share >= 1
        for one in found
        for row in one.table.rows
        for share in (row.floor_upper, *row.smallest_detectable_change.values())
    )
    if unknown:
        yield (
            f"Where noise is not known, {formatting.count(fewest, 'job')} per target were too few: "
            "run the calibration with at least six repeats."
        )


def _noise(calibration: Calibration) -> Iterator[Block]:
    table, check = calibration.table, calibration.self_check
    yield noise_table(table)
    remarks = [f"Left out: {row_name(one.row)}: {one.reason}" for one in table.left_out]
    if check:
        names = formatting.shortened_list([row_name(row) for row in check.different])
        remarks.append(
            f"Odd repeats against even ones: {len(check.different)} of "
            f"{formatting.count(check.rows, 'row')} called "
            f"different{names and f' ({names})'}."
        )
    yield from map(Text, remarks)
