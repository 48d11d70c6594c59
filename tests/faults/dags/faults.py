"""The chains under test, without what only draws: plan, run, collect, and alerts of what is slower.

Their limits are short, and the second DAG's jobs may take half a minute. The broken ones are for
the matrix to see it.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from airflow.sdk import chain, dag, get_current_context, task
from broken import ALERTING, BROKEN

from batchmark.aws.result_bucket import RunStore
from batchmark.orchestration import assets, dag_parts, forms
from batchmark.orchestration.operators.batch_operator import BenchmarkJobOperator
from batchmark.orchestration.settings import load_config
from batchmark.orchestration.tasks import alerts, run
from tests.builders.alerts import change, point, series, store_changes

WHOLE: Mapping[str, Any] = {
    "plan_jobs": run.plan_jobs,
    "run_benchmark": BenchmarkJobOperator,
    "collect_results": run.collect_results,
    "open_alerts": alerts.open_alerts,
    "publish_alerts": alerts.publish_alerts,
}
RETRIES = {"retries": 3, "retry_delay": timedelta(seconds=2)}


def define(
    dag_id: str, broken: Mapping[str, Any] | None = None, *, slower: bool = False, **limits: Any
) -> None:
    """Define a chain, with some of its tasks broken; if it is slower, it has one regression."""
    does = {**WHOLE, **(broken or {})}

    @dag(
        dag_id=dag_id,
        schedule=None,
        max_active_runs=64,
        max_active_tasks=64,
        params=forms.suite_params(
            repeats=1, fewest_repeats=1, about_repeats="Jobs per target.", max_cost_usd=50
        ),
        default_args=RETRIES,
    )
    def faults():
        @task
        def plan_jobs() -> list[dict[str, Any]]:
            return does["plan_jobs"](get_current_context(), need_both_devices=False)

        @task(trigger_rule="all_done", outlets=[assets.RESULTS])
        def collect_results() -> str:
            return does["collect_results"](get_current_context(), run_benchmark.task_id)

        @task
        def find_changes() -> str:
            run_id = get_current_context()["run_id"]
            found = change(point(of=series(target=run_id)))
            return store_changes(RunStore.of(load_config(), run_id), found)

        @task
        def open_alerts(changes_key: str) -> list[str]:
            return does["open_alerts"](get_current_context(), changes_key)

        @task(trigger_rule="all_done")
        def publish_alerts(alert_ids: list[str] | None, report_key: str | None) -> None:
            does["publish_alerts"](get_current_context(), alert_ids, report_key)

        with patch.object(dag_parts, "BenchmarkJobOperator", does["run_benchmark"]):
            run_benchmark = dag_parts.run_benchmark(plan_jobs(), runnable_seconds=20, **limits)
        collected = collect_results()
        chain(run_benchmark, collected)
        if slower:
            changes = find_changes()
            chain(collected, changes)
            publish_alerts(open_alerts(changes), collected)

    faults()


@dag(schedule=None, default_args=RETRIES)
def send_alerts():
    @task
    def send_pending() -> None:
        alerts.send_pending(get_current_context())

    send_pending()


define("faults")
define("faults_time_out", execution_timeout=timedelta(seconds=30))
define("faults_slower", slower=True)
send_alerts()
for name, tasks in BROKEN.items():
    define(name, tasks, slower=bool(ALERTING & tasks.keys()))
