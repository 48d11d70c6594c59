"""# Own job

Runs one of Terraform's `own_jobs`, an image and a command as they are, on each of its targets
through AWS Batch, at each size of its axis. The report compares whole jobs in time and dollars,
with whatever metrics the job tells, and says which target is cheapest within a deadline. What
became slower since earlier runs opens an alert.

A job whose exit code or check says that its result is wrong is not compared.

**Each run costs money in AWS.** It is refused if its jobs could cost more than `max_cost_usd`;
`dry_run` shows how much that is.
"""

from typing import Any

from airflow.sdk import dag, get_current_context, task

from batchmark.orchestration import dag_parts
from batchmark.orchestration.own_job_form import own_job_params
from batchmark.orchestration.tasks import own_jobs


@dag(
    dag_display_name="Own job benchmark",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params=own_job_params(),
    description="A job of your own, as it is, on each of its targets, in time and in dollars",
    tags=["batchmark", "benchmark"],
    doc_md=__doc__,
    default_args=dag_parts.default_args(),
)
def own_job_benchmark():
    @task
    def check_environment() -> str:
        return own_jobs.check_own_job(get_current_context())

    @task
    def plan_jobs() -> list[dict[str, Any]]:
        return own_jobs.plan_own_job(get_current_context())

    dag_parts.benchmark(check_environment, plan_jobs)


own_job_benchmark()
