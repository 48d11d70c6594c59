"""What DAGs have in common: their arguments, and the tasks that run jobs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from airflow.sdk import BaseOperator, Context, TaskGroup, XComArg, chain, get_current_context, task
from airflow.sdk.definitions.mappedoperator import MappedOperator

from batchmark.orchestration import assets
from batchmark.orchestration.links import ReportLink
from batchmark.orchestration.operators.batch_operator import BenchmarkJobOperator
from batchmark.orchestration.tasks import alerts, regressions, run
from batchmark.orchestration.tasks.approval import Arguments
from batchmark.orchestration.xcom import RERUN_TASKS
from batchmark.runs.plans.planning import RUNNABLE_SECONDS

# A short interval is cheap, as one call describes a hundred jobs.
POLL_SECONDS = 2
GROUPS = {
    "measure": "Plan the jobs, run them in Batch, collect their results",
    "watch": "Compare with earlier runs, measure suspects again, open alerts",
    "publish": "Write the report, send the alerts",
}
# Of a task that ends what costs money: AWS refuses while it is still coming up.
INSISTING = {"retries": 20, "retry_delay": timedelta(minutes=1)}


class Layer(NamedTuple):
    """What the jobs of a run need beside themselves: the tasks that make it and end it."""

    stand_up: BaseOperator
    collapse: BaseOperator


def benchmark_args() -> dict[str, Any]:
    """Return the arguments of the DAG of a benchmark that all of them have."""
    return {
        "catchup": False,
        "max_active_runs": 1,
        "tags": ["batchmark", "benchmark"],
        "default_args": default_args(),
    }


def default_args(retries: int = 2) -> dict[str, Any]:
    """Return the arguments of all tasks of a DAG."""
    return {
        "retries": retries,
        "retry_delay": timedelta(seconds=30),
        # What people are told is in the log; that a task returned a key says nothing to them.
        "show_return_value_in_logs": False,
    }


def group(name: str) -> TaskGroup:
    """Return one of GROUPS: a box of tasks in Airflow's grid and graph; they keep their ids."""
    return TaskGroup(
        name, group_display_name=name.capitalize(), prefix_group_id=False, tooltip=GROUPS[name]
    )


def run_benchmark(
    planned: XComArg,
    *,
    task_id: str = "run_benchmark",
    runnable_seconds: float = RUNNABLE_SECONDS,
    starting_seconds: float = 1800,
    execution_timeout: timedelta | None = None,
    one_by_one: bool = False,
) -> MappedOperator:
    """Return the mapped task that runs every planned job, at once or in the order of the plan.

    Its retries are for lost workers and triggerers; they submit no second job. The two limits are
    BenchmarkJobTrigger's: an instance may take long to start, and pulling a GPU image minutes.
    """
    return BenchmarkJobOperator.partial(
        task_id=task_id,
        aws_conn_id=None,
        poll_interval=POLL_SECONDS,
        runnable_seconds=runnable_seconds,
        starting_seconds=starting_seconds,
        execution_timeout=execution_timeout,
        retries=3,
        retry_delay=timedelta(seconds=5),
        map_index_template="{{ task.job_name }}",
        # It counts deferred tasks, too. The scheduler goes in the plan's order.
        max_active_tis_per_dagrun=1 if one_by_one else None,
    ).expand_kwargs(planned)


def with_report_link(published: Any) -> Any:
    """Return a task that publishes a page, with a link to the page."""
    published.operator.operator_extra_links = (ReportLink(),)
    return published


def detect_regressions(collected: Any, *, reruns: bool = True, one_by_one: bool = False) -> XComArg:
    """Return the tasks from a collected run to what changed: suspects, fresh jobs, a decision."""

    @task
    def find_suspects(collected_key: str) -> list[dict[str, Any]]:
        return regressions.find_suspects(get_current_context(), collected_key)

    # Even if a fresh job is lost, the others decide.
    @task(trigger_rule="all_done")
    def find_agreeing() -> list[dict[str, Any]]:
        return regressions.find_agreeing(get_current_context())

    # A fresh job that fails must hide no regression.
    @task(trigger_rule="all_done")
    def detect_regressions(collected_key: str | None) -> str:
        return regressions.detect_regressions(get_current_context(), collected_key)

    suspects, changes = find_suspects(collected), detect_regressions(collected)
    chain(suspects, changes)
    if reruns:
        once, twice = RERUN_TASKS
        agreeing = find_agreeing()
        rerun_once = run_benchmark(suspects, task_id=once, one_by_one=one_by_one)
        rerun_twice = run_benchmark(agreeing, task_id=twice, one_by_one=one_by_one)
        chain(rerun_once, agreeing, rerun_twice, changes)
        # These keep their order even if they are cleared without the jobs between them.
        chain(suspects, agreeing, changes)
    return changes


def conclude(planned: Any, collected: Any, *, reruns: bool = True, one_by_one: bool = False) -> Any:
    """Add the tasks after a run's results, to its alerts; return the one that finds changes."""

    @task
    def compare(collected_key: str) -> str:
        return run.compare(get_current_context(), collected_key)

    @task
    def open_alerts(changes_key: str) -> list[str]:
        return alerts.open_alerts(get_current_context(), changes_key)

    @task(trigger_rule="all_done", outlets=[assets.REPORT])
    def publish_report(comparison_key: str | None) -> str:
        return run.publish_report(get_current_context(), comparison_key)

    @task(trigger_rule="all_done")
    def publish_alerts(alert_ids: list[str] | None, report_key: str | None) -> None:
        alerts.publish_alerts(get_current_context(), alert_ids, report_key)

    @task(outlets=[assets.REGRESSIONS])
    def announce_regressions() -> None:
        alerts.announce_regressions(get_current_context())

    compared: Any = compare(collected)
    with group("watch"):
        changes: Any = detect_regressions(collected, reruns=reruns, one_by_one=one_by_one)
        opened: Any = open_alerts(changes)
    with group("publish"):
        report = with_report_link(publish_report(compared))
        chain(opened, report)
        publish_alerts(opened, report)
        announced = announce_regressions()
        chain(opened, announced)
    # A run that could not be planned is to fail by that task alone, all others skipped.
    chain(planned, announced)
    return changes


def benchmark(
    check: Callable[[Context], str],
    plan: Callable[[Context], Arguments],
    layer: Callable[[], Layer] | None = None,
) -> None:
    """Add the tasks of a benchmark, from its check to its alerts.

    Args:
        check, plan: what differs from one to another.
        layer: makes the tasks of what the jobs, which then run one by one, need beside themselves.
            It stays until the fresh jobs of suspects have ended, as they need it, too.
    """
    one_by_one = layer is not None

    @task
    def check_environment() -> str:
        return check(get_current_context())

    @task
    def plan_jobs() -> list[dict[str, Any]]:
        return plan(get_current_context())

    @task(trigger_rule="all_done", outlets=[assets.RESULTS])
    def collect_results() -> str:
        return run.collect_results(get_current_context(), running.task_id)

    with group("measure"):
        planned = with_report_link(plan_jobs())
        running = run_benchmark(planned, one_by_one=one_by_one)
        collected: Any = collect_results()
        chain(check_environment(), planned, running, collected)
        below = layer() if layer else None
    changes = conclude(planned, collected, one_by_one=one_by_one)
    if below:
        # It ends the layer also when the run fails or is marked so. Costs are settled before, and
        # it adds the layer's own.
        ended = below.collapse.as_teardown(setups=below.stand_up, on_failure_fail_dagrun=True)
        chain(planned, below.stand_up, running)
        chain(changes, ended)
