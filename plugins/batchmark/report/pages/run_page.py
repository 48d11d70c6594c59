"""Builds a run's page: the answer, changes, reliability and cost, then each study's sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchmark.core import formatting
from batchmark.core.names import run_name
from batchmark.core.run import LostJob
from batchmark.core.suites import suite_names
from batchmark.report import blocks, failures, sections, studies, words
from batchmark.report.answer import first_screen
from batchmark.report.changes import blocks as change_blocks
from batchmark.report.model import Report
from batchmark.report.tables import amount

FIGURES = (
    "Figures have as many digits as their intervals support. Intervals are bootstrapped: with "
    "several jobs, jobs are resampled first, then samples within each."
)
CHANGES = (
    "Changes compare levels over many runs, not this run alone. A spread is one standard deviation "
    "from run to run, relative to the median. Whatever differs between the last run before a "
    "change and the first one after it is a hint, not proof."
)


def run_page(report: Report) -> blocks.Page:
    screen = first_screen(report)
    name = run_name(report.run_id, report.when, suite_names(report.suites))
    return blocks.Page(
        screen.stories[0].title,
        f"Batchmark report of {name}. Run id: {report.run_id}.",
        screen,
        notices=report.notices,
        sections=list(_sections(report, screen)),
        moment=report.when,
    )


def _sections(report: Report, screen: blocks.FirstScreen) -> Iterator[blocks.Section]:
    if failed := failures.section(report.failed, report.lost):
        yield failed
    changes = change_blocks.section(report)
    if changes:
        yield changes
    if report.pairs:
        trust = blocks.Facts("", sections.trust(report))
        judged = any(story.matrices for story in screen.stories)
        block = trust if judged else blocks.Folded("What is known of the figures", [trust])
        yield blocks.Section("trust", "Can it be trusted?", [block])
    if report.pairs or report.studied:
        yield blocks.Section(
            "cost", "What did it cost?", [blocks.Facts("", sections.costs(report, screen.stories))]
        )
    yield from studies.sections(report)
    if lost := [job for job in report.lost if not job.not_run]:
        yield blocks.Section("lost", "Lost jobs", [_lost(lost, report)])
    if not words.outside_ec2(report.targets):
        yield _prices(report)
    meaning = [text for story in screen.stories for text in story.meaning]
    read = [FIGURES, *meaning, *([CHANGES] if report.changes and changes else [])]
    yield blocks.Section(
        "reading", "How to read this", [blocks.Remarks([], read)], on_page_alone=True
    )


def _lost(of: Sequence[LostJob], report: Report) -> blocks.Table:
    costs = report.cost.jobs[len(report.cost.jobs) - len(of) :]  # lost ones come last
    rows = [
        (
            lost.planned.target,
            lost.planned.measures,
            str(lost.planned.repeat),
            lost.job_id or "none",
            " / ".join(lost.reason.split("\n")),
            "-" if cost.seconds is None else formatting.seconds(cost.seconds),
            "; ".join(filter(None, ("" if cost.usd is None else amount(cost.usd), cost.reason))),
        )
        for lost, cost in zip(of, costs, strict=True)
    ]
    heads = ("Target", "Suite", "Repeat", "Job", "Why", "Time", "Cost")
    return blocks.Table("", "Jobs of this run that left no result.", heads, rows, wide=True)


def _prices(report: Report) -> blocks.Section:
    prices = report.prices
    days = formatting.count(prices.age_days(report.created_at), "day")
    rows = []
    for name in dict.fromkeys((*prices.on_demand, *prices.spot)):
        spot = prices.spot.get(name)
        rows.append(
            (
                name,
                str(prices.on_demand.get(name, "-")),
                f"{spot.usd_per_hour} ({spot.lowest_usd_per_hour} to {spot.highest_usd_per_hour}, "
                f"last change {spot.changed_at:%Y-%m-%d %H:%M %Z})"
                if spot
                else "-",
            )
        )
    source = blocks.Link(prices.source, prices.source_url or "")
    caption = (
        f"{prices.operating_system} in {prices.region}, {prices.currency} per hour. Spot: median "
        "and range across the Availability Zones."
    )
    return blocks.Section(
        "prices",
        "Prices",
        [
            blocks.Text(f"As of {prices.as_of}, {days} before this report. Source:", link=source),
            blocks.Remarks(words.price_cautions(report)),
            blocks.Table("", caption, ("Instance type", "On-Demand", "Spot"), rows),
        ],
    )
