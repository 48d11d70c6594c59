"""# Jobs that run already

Compares queues and job definitions of this account that Terraform did not make, such as an old and
a new image, or a queue of CPUs and one of GPUs. Each side of the form is a queue and a definition,
with what differs from it. Instance types, purchase options and prices are found, and the report is
that of an own job.

Nothing of the account is changed: jobs are submitted, and only these are ever ended. They share a
queue and its instances with whatever else runs there.

**Who may start this DAG runs any command with the role of every job definition that Terraform
lists** in `comparison_access`, or in its stack `job_comparison`. Any other definition is refused.
In Airflow the right to start this DAG is its own: give it to those who may do that.

**Each run costs money in AWS.** It is refused if its jobs could cost more than `max_cost_usd`, on
the dearest instances that they may get; `dry_run` shows how much that is.
"""

from airflow.sdk import dag

from batchmark.orchestration import dag_parts, forms
from batchmark.orchestration.tasks import own_jobs


@dag(
    dag_display_name="Job comparison",
    params=forms.comparison_params(),
    description="Existing queues and job definitions against each other, in time and in dollars",
    doc_md=__doc__,
    schedule=None,
    **dag_parts.dag_args("benchmark"),
)
def job_comparison():
    dag_parts.benchmark(own_jobs.check_sides, own_jobs.plan_comparison)


job_comparison()
