"""Simulates the sample's year, run by run, using the tasks from Batchmark's own DAGs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import boto3
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from batchmark.analysis.comparison import Comparison
from batchmark.aws.price_list import RunPrices
from batchmark.aws.result_bucket import (
    CHANGES,
    CHANGES_SECTION,
    PLAN,
    REPORT_HTML,
    SUMMARY,
    RunStore,
    rerun_name,
)
from batchmark.changes.alerts.records import precision
from batchmark.changes.alerts.store import AlertStore
from batchmark.changes.records import RunChanges
from batchmark.core.config import ComputeEnvironments, Config, Target
from batchmark.core.kinds import OWN_JOB_DAG
from batchmark.core.own_jobs import JobAxis, OwnJob, OwnJobRun, OwnJobs
from batchmark.core.prices import PriceTable
from batchmark.core.run import PlannedJob, RunPlan
from batchmark.orchestration.tasks import alerts, regressions, run
from batchmark.orchestration.xcom import RERUN_TASKS
from batchmark.report.answer import summarize
from batchmark.report.change_records import ChangesSection
from batchmark.report.changes.alert_message import alert_board
from batchmark.report.model import build_report
from batchmark.report.page import page_html
from batchmark.report.pages.run_page import run_page
from batchmark.report.studies import beside
from batchmark.runs.budget import book, worst_case
from batchmark.runs.plans.own_job_plan import plan_own_jobs
from batchmark.runs.plans.planning import plan_jobs
from batchmark.runs.spending import RunSpending, spending_key
from sample import MADE_UP, nodes, story
from sample.account import Account
from sample.documents import COMPUTE_ENVIRONMENT

NAME, REGION, BUCKET = "sample", "us-east-1", "made-up-results"
SUITE_DAG, JOB_DAG = "gpu_cpu_benchmark", OWN_JOB_DAG
NODES_DAG = "distributed_training_benchmark"
RUN_TASK = "run_benchmark"
JUDGED_AFTER = timedelta(hours=2)
DAYS_OF_WEEK = {SUITE_DAG: 0, JOB_DAG: 1, NODES_DAG: 2}
MOST_USD = 50.0  # high enough that no fresh job is refused
# Each search for changes takes a third of a second, so earlier weeks get one only if they can have
# a result. Searching every week gives the same result (tests/unit/sample). The list of runs shows
# only those with a report, each of which takes a quarter of a second.
REPORTED_FROM, DRAWN_FROM = 48, 50
REPORTED = range(REPORTED_FROM, 52)
JUDGED: Mapping[str, Collection[int]] = {
    SUITE_DAG: (12, 18, 25, 31, *REPORTED),
    JOB_DAG: (40, *REPORTED),
    NODES_DAG: (),
}


def config() -> Config:
    return Config(
        schema_version=1,
        name=NAME,
        region=REGION,
        bucket=BUCKET,
        topic_arn="arn:aws:sns:us-east-1:000000000000:sample",
        log_group="/sample",
        targets={name: _target(name) for name in story.TARGETS},
    )


def _target(name: str) -> Target:
    gpu = name in story.GPUS
    return Target(
        device="cuda" if gpu else "cpu",
        instance_type=name,
        vcpus=4 if gpu else 8,
        memory_mib=14336,
        gpus=int(gpu),
        job_queue=f"sample-{name}",
        on_demand_queue=f"sample-{name}",
        job_definition=f"sample-{name}:1",
        compute_environments=ComputeEnvironments(
            spot=None, on_demand=COMPUTE_ENVIRONMENT.format(name)
        ),
        timeout_seconds=1800,
        attempts=1,
        allow_cpu_fallback=False,
    )


def own_jobs() -> OwnJobs:
    job = OwnJob(
        command=("python", "convert.py", "--size", "Ref::size"),
        axis=JobAxis(parameter="size", sizes=story.SIZES),
        job_definitions={name: f"sample-convert-{name}:1" for name in story.JOB_TARGETS},
        timeout_seconds=300,
        attempts=1,
    )
    return OwnJobs(schema_version=1, name=NAME, region=REGION, jobs={story.JOB: job})


class SampleRun(NamedTuple):
    """A scheduled run in the sample."""

    dag_id: str
    week: int

    @property
    def at(self) -> datetime:
        return story.day(self.week) + timedelta(days=DAYS_OF_WEEK[self.dag_id])

    @property
    def run_id(self) -> str:
        names = {SUITE_DAG: story.SUITE, JOB_DAG: story.JOB, NODES_DAG: "nodes"}
        return f"made-up__{names[self.dag_id]}__{self.at:%Y-%m-%d}"

    def jobs(self, found: Config, name: str) -> list[PlannedJob]:
        if self.dag_id == JOB_DAG:
            wanted = OwnJobRun(job=story.JOB, repeats=story.JOB_REPEATS)
            return plan_own_jobs(found, own_jobs(), wanted, run_name=name)
        if self.dag_id == NODES_DAG:
            return nodes.planned(found, name)
        return plan_jobs(found, run_name=name, suite=story.SUITE, repeats=story.SUITE_REPEATS)


class Installation:
    """The sample installation, whose bucket fills up week by week.

    Attributes:
        runs: finished runs.
        drawn: ids of the runs whose reports are written as pages.
    """

    def __init__(self) -> None:
        self.config = config()
        self.account = Account(self.config)
        self.runs: list[SampleRun] = []
        self.drawn: list[str] = []
        boto3.DEFAULT_SESSION = self.account

    @property
    def alerts(self) -> AlertStore:
        return AlertStore(self._store(""))

    def measure(self, due: SampleRun) -> None:
        """Simulate a run from its plan to its results and, in some weeks, its alerts and report."""
        store = self._store(due.run_id)
        planned = self._plan(store, due)
        context, collected = self._collect(store, due, planned)
        if due.week in JUDGED[due.dag_id]:
            self._judge(context, store, due, collected)
        if due.week >= REPORTED_FROM or due.week in JUDGED[due.dag_id]:
            self._publish(store, run.compare(context, collected), due)
        self.runs.append(due)

    def _collect(self, store: RunStore, due: SampleRun, planned: RunPlan) -> tuple[Context, str]:
        """Simulate the planned jobs; return the run's context and the collected results' key."""
        if due.dag_id == NODES_DAG:
            context = _context(due, ())
            found = nodes.collected(store, due.run_id, planned.jobs, due.at)
            return context, run.record(context, self.config, store, planned, found)
        self.account.forget_jobs()
        context = _context(due, self.account.run(due.run_id, due.week, planned.jobs, due.at))
        return context, run.collect_results(context, RUN_TASK)

    def _judge(self, context: Context, store: RunStore, due: SampleRun, collected: str) -> None:
        """Measure again whatever looks slower, detect changes, and update the alerts."""
        again = partial(self._measure_again, context, store, due)
        again(1, regressions.find_suspects(context, collected))
        with suppress(AirflowSkipException):  # nothing looked slower
            again(2, regressions.find_agreeing(context))
        regressions.detect_regressions(context, collected)
        self._tell(store, due)

    def _store(self, run_id: str) -> RunStore:
        return RunStore.of(self.config, run_id)

    def _plan(self, store: RunStore, due: SampleRun) -> RunPlan:
        table = PriceTable(
            region=REGION, as_of=due.at.date(), source=MADE_UP, on_demand=story.prices(due.week)
        )
        jobs = due.jobs(self.config, store.name)
        worst = worst_case(self.config, jobs, table, due.at)
        key = spending_key(store, due.at)
        spending = RunSpending(run_id=due.run_id, planned_at=due.at, generation=0, reserved_usd=0.0)
        book(store, key, spending, worst, monthly_cap_usd=None, if_refused=spending)
        RunPrices(table, asked=False).store(store)
        plan = RunPlan(
            jobs=tuple(jobs),
            worst_case=worst,
            dag_id=due.dag_id,
            run_id=due.run_id,
            spending_key=key,
        )
        store.write(PLAN, plan.model_dump_json())
        return plan

    def _measure_again(
        self,
        context: Context,
        store: RunStore,
        due: SampleRun,
        number: int,
        asked: Sequence[object],
    ) -> None:
        """Simulate the fresh jobs in one round of re-runs, which can be empty."""
        planned = store.plan(rerun_name(number)).jobs if asked else ()
        ids = self.account.run(due.run_id, due.week, planned, due.at + number * JUDGED_AFTER / 3)
        context["ti"].ids[RERUN_TASKS[number - 1]] = ids  # type: ignore[attr-defined]

    def _tell(self, store: RunStore, due: SampleRun) -> None:
        found = RunChanges.model_validate_json(store.read(store.prefix + CHANGES))
        now = due.at + JUDGED_AFTER
        if message := alerts.decide(self.config, store, due.run_id, found.changes, now):
            self.alerts.apply(message)

    def _publish(self, store: RunStore, comparison: str, due: SampleRun) -> None:
        found = Comparison.model_validate_json(store.read(comparison))
        changes = store.record(ChangesSection, store.prefix + CHANGES_SECTION)
        listed = self.alerts.alerts()
        report = build_report(
            found,
            created_at=due.at + JUDGED_AFTER,
            changes=changes,
            alerts=alert_board(listed, precision(listed), None),
        )
        store.write(SUMMARY, summarize(report).model_dump_json())
        if due.week < DRAWN_FROM and due.week not in JUDGED[due.dag_id]:
            return
        addresses = {
            one.section: store.object_url(store.write(one.file, page_html(one.page), "text/html"))
            for one in beside(report)
        }
        store.write(REPORT_HTML, page_html(run_page(report), addresses), "text/html")
        self.drawn.append(due.run_id)


class _Instance:
    """A task instance of a run in which every task succeeds."""

    def __init__(self, dag_id: str, ids: Sequence[str]) -> None:
        self.dag_id = dag_id
        self.ids = {RUN_TASK: list(ids)}

    def xcom_pull(self, *, task_ids: str, **_: object) -> list[str]:
        return self.ids[task_ids]

    def get_task_states(
        self, *, run_ids: Sequence[str], task_ids: Sequence[str], **_: object
    ) -> dict[str, dict[str, str]]:
        return {run_id: dict.fromkeys(task_ids, "success") for run_id in run_ids}


def _context(due: SampleRun, ids: Sequence[str]) -> Any:
    return {
        "run_id": due.run_id,
        "params": {"reruns": True, "max_cost_usd": MOST_USD},
        "ti": _Instance(due.dag_id, ids),
        "outlet_events": defaultdict(SimpleNamespace),
    }


def all_runs() -> list[SampleRun]:
    """List all runs in chronological order."""
    weekly = [
        SampleRun(dag_id, week) for week in range(story.WEEKS) for dag_id in (SUITE_DAG, JOB_DAG)
    ]
    return sorted([*weekly, SampleRun(NODES_DAG, story.NODES_WEEK)], key=lambda due: due.at)
