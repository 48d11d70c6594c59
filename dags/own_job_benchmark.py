"""# Own job benchmark

Runs one of Terraform's `own_jobs`, with its image and command unchanged, on each of its targets
through AWS Batch, at each size of its axis. The report compares whole jobs by run time, cost and
whatever metrics the job reports, and says which target is cheapest within a deadline. Anything
slower than in earlier runs opens an alert.

Jobs whose exit code or check shows that their result is wrong are not compared.

**Each run costs money in AWS.** It is refused if its jobs could cost more than `max_cost_usd`;
`dry_run` shows the amount.
"""

from airflow.sdk import dag

from batchmark.orchestration import dag_parts, forms
from batchmark.orchestration.tasks import own_jobs


@dag(
    dag_display_name="Own job benchmark",
    params=forms.own_job_params(),
    description="Run a job of your own, unchanged, on each of its targets, and compare the targets",
    doc_md=__doc__,
    schedule=None,
    **dag_parts.dag_args("benchmark"),
)
def own_job_benchmark():
    dag_parts.benchmark(own_jobs.check_own_job, own_jobs.plan_own_job)


own_job_benchmark()
