"""Parts shared by the DAGs: their arguments, and the tasks that run jobs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from airflow.sdk import (
    BaseOperator,
    Context,
    CronTriggerTimetable,
    TaskGroup,
    XComArg,
    chain,
    get_current_context,
    task,
)
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
    "measure": "Plan the jobs, run them in Batch and collect their results",
    "watch": "Compare with earlier runs, measure suspects again and open alerts",
    "publish": "Write the report and send the alerts",
}
# For tasks that end billed resources: AWS refuses while these are still being created.
TEARDOWN_RETRIES = {"retries": 20, "retry_delay": timedelta(minutes=1)}


class Layer(NamedTuple):
    """The tasks that create and remove the infrastructure that a run's jobs need."""

    stand_up: BaseOperator
    collapse: BaseOperator


def dag_args(tag: str, *, retries: int = 2) -> dict[str, Any]:
    """Return the arguments that all our DAGs share; `retries` applies to their tasks."""
    return {
        "catchup": False,
        "max_active_runs": 1,
        "tags": ["batchmark", tag],
        "default_args": {
            "retries": retries,
            "retry_delay": timedelta(seconds=30),
            # People read the log; the returned key means nothing to them.
            "show_return_value_in_logs": False,
        },
    }


def schedule(cron: str) -> CronTriggerTimetable:
    """Return a schedule in UTC.

    Once unpaused, a DAG without a start date waits for its next scheduled time. It runs at once
    only if a scheduled time passed within the last 10 minutes.
    """
    return CronTriggerTimetable(cron, timezone="UTC", run_immediately=timedelta(minutes=10))


def task_of(work: Callable[..., Any], task_id: str | None = None, **arguments: Any) -> Any:
    """Create a task from a function in `tasks`, passing it the run's context as the first argument.

    Args:
        work: the function; it is called with the context, then the task's arguments.
        task_id: the task's id; by default, the function's name.
        arguments: further arguments for the task decorator.
    """

    @task(task_id=task_id or work.__name__, **arguments)
    def do(*given: Any) -> Any:
        return work(get_current_context(), *given)

    return do


def group(name: str) -> TaskGroup:
    """Return one of GROUPS as an Airflow task group that adds no prefix to task ids."""
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
    """Return the mapped task that runs all planned jobs, either all at once or one by one in order.

    Retries make up for lost workers and triggerers, and never submit a second job. For the limits
    `runnable_seconds` and `starting_seconds`, see JobOrder. They are generous, because instances
    can start slowly and pulling a GPU image takes minutes.
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
        # The limit counts deferred tasks, too. The scheduler follows the plan's order.
        max_active_tis_per_dagrun=1 if one_by_one else None,
    ).expand_kwargs(planned)


def with_report_link(published: Any) -> Any:
    published.operator.operator_extra_links = (ReportLink(),)
    return published


def detect_regressions(collected: Any, *, reruns: bool = True, one_by_one: bool = False) -> Any:
    """Add the tasks that find suspects, rerun jobs and detect changes; return the last task."""
    suspects = task_of(regressions.find_suspects)(collected)
    # A fresh job that fails must hide no regression.
    changes = task_of(regressions.detect_regressions, trigger_rule="all_done")(collected)
    chain(suspects, changes)
    if reruns:
        once, twice = RERUN_TASKS
        # Even if a fresh job is lost, the others decide.
        agreeing = task_of(regressions.find_agreeing, trigger_rule="all_done")()
        rerun_once = run_benchmark(suspects, task_id=once, one_by_one=one_by_one)
        rerun_twice = run_benchmark(agreeing, task_id=twice, one_by_one=one_by_one)
        chain(rerun_once, agreeing, rerun_twice, changes)
        # These keep their order even if they are cleared without the jobs between them.
        chain(suspects, agreeing, changes)
    return changes


def conclude(planned: Any, collected: Any, *, reruns: bool = True, one_by_one: bool = False) -> Any:
    """Add all tasks after the collection of results; return the one that detects changes."""
    publish = task_of(run.publish_report, trigger_rule="all_done", outlets=[assets.REPORT])
    compared = task_of(run.compare)(collected)
    with group("watch"):
        changes = detect_regressions(collected, reruns=reruns, one_by_one=one_by_one)
        opened = task_of(alerts.open_alerts)(changes)
    with group("publish"):
        report = with_report_link(publish(compared))
        chain(opened, report)
        task_of(alerts.publish_alerts, trigger_rule="all_done")(opened, report)
        announced = task_of(alerts.announce_regressions, outlets=[assets.REGRESSIONS])()
        chain(opened, announced)
    # If a run can't be planned, only that task fails and all others are skipped.
    chain(planned, announced)
    return changes


def collect_results(collect: Callable[..., str], running: MappedOperator) -> Any:
    """Return the task that collects results from another task's jobs, even if some failed."""
    task = task_of(collect, "collect_results", trigger_rule="all_done", outlets=[assets.RESULTS])
    return task(running.task_id)


def measure(
    check: Callable[[Context], str],
    plan: Callable[[Context], Arguments],
    layer: Callable[[], Layer] | None = None,
) -> tuple[Any, Any, Layer | None]:
    """Add the tasks from the environment check to the collection of results.

    Returns the planning task, the collecting task, and the layer (None if there is none).

    Args:
        check, plan, layer: as for `benchmark`. The caller must collapse the returned layer.
    """
    with group("measure"):
        checked = task_of(check, "check_environment")()
        planned = with_report_link(task_of(plan, "plan_jobs")())
        running = run_benchmark(planned, one_by_one=layer is not None)
        collected = collect_results(run.collect_results, running)
        chain(checked, planned, running, collected)
        below = layer() if layer else None
    if below:
        chain(planned, below.stand_up, running)
    return planned, collected, below


def benchmark(
    check: Callable[[Context], str],
    plan: Callable[[Context], Arguments],
    layer: Callable[[], Layer] | None = None,
) -> None:
    """Add all of a benchmark's tasks, from the check to the alerts.

    Args:
        check, plan: the tasks that are specific to the benchmark.
        layer: returns the tasks that create and remove infrastructure that the jobs need. With a
        layer, jobs run one by one, and the layer is removed only once any fresh jobs have ended.
    """
    planned, collected, below = measure(check, plan, layer)
    changes = conclude(planned, collected, one_by_one=layer is not None)
    if below:
        # It ends the layer also when the run fails or is marked so. Costs are settled before, and
        # it adds the layer's own.
        ended = below.collapse.as_teardown(setups=below.stand_up, on_failure_fail_dagrun=True)
        chain(changes, ended)
