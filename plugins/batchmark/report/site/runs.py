"""Describes one run for the list of all runs, whether or not it has a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from urllib.parse import quote

from batchmark.analysis.published import published_table
from batchmark.changes.alerts.records import Alert
from batchmark.core import formatting
from batchmark.core.kinds import title
from batchmark.core.names import run_name
from batchmark.core.run import RunPlan
from batchmark.core.suites import suite_name
from batchmark.core.version import NAMES, Version, shortened
from batchmark.report.answer import OUTSIDE_EC2, RunSummary
from batchmark.report.words import NO_DOLLARS, NOT_KNOWN

# Airflow's states, in words for somebody who waits for a report.
STATES = {
    "queued": "is waiting to start",
    "running": "is running",
    "success": "finished",
    "failed": "failed",
}
UNDER_WAY = ("queued", "running")
ELSEWHERE, NOT_HERE = "elsewhere", "not in this Airflow"
WITHOUT_REPORT = {
    "queued": "It is queued; its report appears when its jobs have ended.",
    "running": "It is still running; its report appears when its jobs have ended.",
    "success": "It has no report page.",
    "failed": "It failed before its report was written; its page says why.",
}


@dataclass(frozen=True)
class RunLine:
    run_id: str
    at: datetime  # when its first job began; before that, as in Airflow
    dag_id: str  # empty if unknown
    suite: str
    state: str | None  # Airflow's; None if it does not know the run
    summary: RunSummary | None = None
    imported: bool = False
    plan: RunPlan | None = None
    measured: Mapping[str, Sequence[str]] = field(default_factory=dict)  # versions, by field

    @property
    def versions(self) -> Mapping[str, Sequence[str]]:
        """Each version field's values across the run's jobs: measured or, failing that, planned."""
        if self.measured or self.plan is None:
            return self.measured
        given = [job.version.model_dump() for job in self.plan.jobs if job.version]
        return {name: [one[name] for one in given if one.get(name)] for name in NAMES}

    @property
    def version(self) -> str:
        return str(Version.agreed(self.versions))

    @property
    def when(self) -> str:
        if self.run_id == published_table().run_id:
            return f"read on {self.at:%Y-%m-%d}"
        return formatting.moment(self.at)

    @property
    def page(self) -> str:
        """The address of the run's page, relative to the site's root."""
        run = quote(self.run_id, safe="")
        return f"dag-runs/{self.dag_id}/{run}" if self.dag_id else f"runs/{run}"

    @property
    def name(self) -> str:
        """A readable name; the id is shown next to it."""
        planned = self.plan.jobs if self.plan else ()
        suite = self.suite or next((job.suite for job in planned), "")
        of = suite_name(suite) if suite else title(self.dag_id) or "run"
        return run_name(self.run_id, self.when, of)

    @property
    def about(self) -> str:
        """The run's kind and state."""
        return ", ".join(filter(None, (title(self.dag_id), self.state_text)))

    @property
    def state_text(self) -> str:
        if self.imported:
            return "not measured here"
        return STATES.get(self.state or "", NOT_HERE if self.state is None else self.state)

    @property
    def verdict(self) -> str:
        if self.is_dry:
            return "Dry run."
        return f"{self.summary.verdict}." if self.summary else "No report."

    def with_plan(self, plan: RunPlan | None) -> RunLine:
        if plan is None:
            return self
        return replace(self, plan=plan, dag_id=self.dag_id or plan.dag_id or "")

    @property
    def is_dry(self) -> bool:
        return bool(self.plan and self.plan.dry_run and not self.summary)

    @property
    def sentence(self) -> str:
        if self.plan and self.is_dry:
            worst = self.plan.worst_case
            most = worst.most if worst else "an unknown sum"
            return f"{formatting.count(len(self.plan.jobs), 'job')}, {most} in AWS at most."
        return self.summary.sentence if self.summary else without_report(self.state)

    @property
    def changed(self) -> str:
        if self.summary is None:
            return "-"
        if self.summary.worse is None:
            return "not judged: not compared with earlier runs"
        if self.summary.worse:
            told = f"{formatting.count(self.summary.worse, 'change')} for the worse"
            began = self.summary.worse_since
            first = "the first " if self.summary.worse > 1 else ""
            return f"{told}, {first}since {began:%Y-%m-%d}" if began else told
        return f"{NOT_KNOWN}: too few runs" if self.summary.too_early else "nothing worse"

    @property
    def cost(self) -> str:
        if self.summary is None:
            return "-"
        if self.summary.usd is None:
            return NO_DOLLARS if self.summary.cost == OUTSIDE_EC2 else self.summary.cost
        return formatting.usd(self.summary.usd)


def version_choices(lines: Iterable[RunLine], name: str, chosen: str) -> list[tuple[str, str]]:
    """List a version field's values in run order, including the chosen one."""
    found = dict.fromkeys(one for line in lines for one in line.versions.get(name, ()))
    known = [chosen] if chosen and chosen not in found else []
    return [(one, shortened(name, one)) for one in (*known, *found)]


def open_alerts(alerts: Sequence[Alert]) -> str:
    """Say how many alerts are open; empty if there are none."""
    waiting = sum(alert.state == "open" for alert in alerts)
    return f"{formatting.count(waiting, 'alert')} open" if waiting else ""


def run_summary(lines: Sequence[RunLine], *, first: bool = True) -> str:
    """Give the latest answer among a page's runs, or say how to start the first run."""
    if first and not lines:
        return "No runs yet. Trigger the DAG GPU-CPU benchmark, and its report will appear here."
    latest = next((line for line in lines if line.summary), None)
    return (
        f"The latest answer ({latest.name}): {latest.verdict} {latest.sentence}" if latest else ""
    )


def cost_note(lines: Sequence[RunLine]) -> str | None:
    """Explain that some runs have no cost because they ran outside EC2; None if none did."""
    costs = [line.summary.cost for line in lines if line.summary]
    return OUTSIDE_EC2 if OUTSIDE_EC2 in costs else None


def why_failed(failures: Sequence[tuple[str, str | None]]) -> str:
    """Say why a run without a report failed."""
    told = [
        f"{task}: {reason}" if reason else f"{task}: its log says why"
        for task, reason in dict.fromkeys(failures)
    ]
    text = "It failed before its report was written."
    return f"{text} {formatting.shortened_list(told).rstrip('.')}." if told else text


def without_report(state: str | None) -> str:
    """Say why a run has no report."""
    if state is None:
        return "Neither Airflow nor the result bucket has a report of this run."
    return WITHOUT_REPORT.get(state, f"Airflow says: {state}.")
