"""The chain under test, without what only draws: plan, run, collect.

Its limits are short, and the second DAG's jobs may take half a minute. The others are broken, for
the matrix to see it.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import chain, dag, get_current_context, task
from broken import BROKEN

from batchmark.orchestration import assets, dag_parts
from batchmark.orchestration.tasks import run


def define(
    dag_id: str, plan: Any = run.plan_jobs, collect: Any = run.collect_results, **limits: Any
) -> None:
    @dag(
        dag_id=dag_id,
        schedule=None,
        max_active_runs=64,
        max_active_tasks=64,
        params=dag_parts.params(
            repeats=1, fewest_repeats=1, about_repeats="Jobs per target.", max_cost_usd=50
        ),
        default_args={"retries": 3, "retry_delay": timedelta(seconds=2)},
    )
    def faults():
        @task
        def plan_jobs() -> list[dict[str, Any]]:
            return plan(get_current_context(), need_both_devices=False)

        @task(trigger_rule="all_done", outlets=[assets.RESULTS])
        def collect_results() -> str:
            return collect(get_current_context(), run_benchmark.task_id)

        run_benchmark = dag_parts.run_benchmark(plan_jobs(), runnable_seconds=20, **limits)
        chain(run_benchmark, collect_results())

    faults()


define("faults")
define("faults_time_out", execution_timeout=timedelta(seconds=30))
for name, tasks in BROKEN.items():
    define(name, **tasks)
