"""Builds a check's report for an issue: a page and a JSON file, naming no account or person."""

from __future__ import annotations

import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import AwareDatetime, Field

from batchmark.core.formatting import count, usd
from batchmark.core.record import Record
from batchmark.report.blocks import Page, Table
from batchmark.report.page import page_html
from laptop.aws_check.check import Check
from laptop.aws_check.scrub import names_here, scrubbed
from laptop.aws_check.state import State
from laptop.aws_check.step import Outcome
from laptop.stack import ROOT


class Report(Record):
    report_version: Literal[1] = 1
    cloud: Literal["AWS", "local cloud"]
    region: str
    revision: str = Field(description="the commit that was tested; empty if unknown")
    began_at: AwareDatetime
    ended_at: AwareDatetime
    over: bool = Field(description="whether everything the check created has been destroyed")
    steps: tuple[Outcome, ...]

    @property
    def summary(self) -> str:
        counts = Counter(step.status for step in self.steps)
        told = ", ".join(f"{number} {status}" for status, number in counts.items())
        gone = "no resources are left" if self.over else "some resources were not destroyed"
        return f"{count(len(self.steps), 'step')}: {told}. {usd(self.usd)}; {gone}."

    @property
    def usd(self) -> float:
        return sum(step.usd for step in self.steps)


class Files(NamedTuple):
    page: Path
    json: Path


def report_of(check: Check, state: State) -> Report:
    """Build the report, omitting anything that identifies an account, a person or a machine."""
    names = names_here(check.account.principal_arn)
    steps = (
        step.model_copy(update={"seen": scrubbed(step.seen, names)})
        for step in state.outcomes.values()
    )
    return Report(
        cloud="AWS" if check.account.on_aws else "local cloud",
        region=check.account.region,
        revision=_revision(),
        began_at=state.kept.began_at,
        ended_at=datetime.now(UTC),
        over=state.kept.over,
        steps=tuple(steps),
    )


def write_report(report: Report, folder: Path) -> Files:
    """Write the report's page and JSON file, named after the check's start time and region."""
    name = f"{report.began_at:%Y-%m-%dT%H%M}-{report.region}"
    files = Files(folder / f"{name}.html", folder / f"{name}.json")
    files.page.write_text(page_html(page_of(report)))
    files.json.write_text(report.model_dump_json(indent=2) + "\n")
    return files


def page_of(report: Report) -> Page:
    rows = [
        (
            step.step,
            step.status,
            step.expected,
            step.seen,
            f"{step.seconds:.0f}",
            usd(step.usd) if step.usd else "-",
        )
        for step in report.steps
    ]
    headings = ("Step", "Status", "Expected", "Seen", "Seconds", "Dollars")
    told = f"{report.cloud}, {report.region}, {report.began_at:%Y-%m-%d %H:%M %Z}"
    return Page(
        "Check of a first apply",
        f"{told}, of commit {report.revision or 'unknown'}.",
        report.summary,
        [
            Table(
                "Steps",
                "Costs are for the jobs' time, at On-Demand prices.",
                headings,
                rows,
                wide=True,
            )
        ],
    )


def _revision() -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()
