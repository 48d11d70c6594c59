"""# Jobs that already run

Compares queues and job definitions of this account that Terraform did not create, such as an old
and a new image, or a CPU queue and a GPU queue. Each side of the form is a queue and a definition,
with optional changes to it. Instance types, purchase options and prices are looked up, and the
report is the same as that of *Own job benchmark*.

It submits jobs, ends only those that it submitted, and changes nothing else in the account. Its
jobs share a queue and its instances with whatever else runs there.

**Anyone who may start this DAG can run any command with the role of every job definition that
Terraform lists** in `comparison_access`, or in its stack `job_comparison`. Any other definition is
refused. In Airflow, starting this DAG is a separate permission: grant it only to people who may run
commands that way.

**Each run costs money in AWS.** It is refused if its jobs could cost more than `max_cost_usd` on
the most expensive instances they can get; `dry_run` shows the amount.
"""

from airflow.sdk import dag

from batchmark.orchestration import dag_parts, forms
from batchmark.orchestration.tasks import own_jobs


@dag(
    dag_display_name="Job comparison",
    params=forms.comparison_params(),
    description="Compare existing queues and job definitions by run time and cost",
    doc_md=__doc__,
    schedule=None,
    **dag_parts.dag_args("benchmark"),
)
def job_comparison():
    dag_parts.benchmark(own_jobs.check_sides, own_jobs.plan_comparison)


job_comparison()
