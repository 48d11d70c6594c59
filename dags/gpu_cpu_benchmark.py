"""# GPU against CPU

Runs one suite on every target through AWS Batch, compares each GPU target with each CPU target in
time and cost, writes the report to `runs/<run>/` in the result bucket, and alerts of what became
slower, dearer or noisier since earlier runs.

**Each run costs money in AWS.** It is refused if its jobs could cost more than `max_cost_usd`;
`dry_run` shows how much that is. What looks slower is measured again by fresh jobs, within the
same limit. Terraform publishes the targets as the SSM parameter `/airflow/variables/batchmark`.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable, dag, get_current_context, task

from batchmark.orchestration import dag_parts
from batchmark.orchestration.tasks import environment, run

PARAMS = dag_parts.params(
    repeats=1,
    fewest_repeats=1,
    about_repeats="Jobs per target. With 6 or more, whole jobs have intervals, too.",
    max_cost_usd=50,
) | {"reruns": dag_parts.reruns_param()}


@dag(
    dag_display_name="GPU-CPU benchmark",
    # Without a start date, unpausing waits for the next Monday instead of running at once.
    schedule=CronTriggerTimetable(
        "0 3 * * 1", timezone="UTC", run_immediately=timedelta(minutes=10)
    ),
    catchup=False,
    max_active_runs=1,
    params=PARAMS,
    description="Every GPU target against every CPU target, in time and in dollars, and over time",
    tags=["batchmark", "benchmark"],
    doc_md=__doc__,
    default_args=dag_parts.default_args(),
)
def gpu_cpu_benchmark():
    @task
    def check_environment() -> str:
        return environment.check_environment(get_current_context(), shared_too=False)

    @task
    def plan_jobs() -> list[dict[str, Any]]:
        return run.plan_jobs(get_current_context())

    dag_parts.benchmark(check_environment, plan_jobs)


gpu_cpu_benchmark()
