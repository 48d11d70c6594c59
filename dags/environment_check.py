"""# Environment check

Checks, before anything costs money, what a benchmark needs: compute environments, queues, job
definitions, image, roles and vCPU quotas, and whether they match what Terraform published. Each
check adds one line to the log and to `runs/<run>/environment.html` in the result bucket. It submits
nothing.

Every benchmark and calibration on Batch starts with this check; a line that says *fail* stops it.
*Not checked* means that AWS did not respond, never that all is well.
"""

from airflow.sdk import dag

from batchmark.orchestration import dag_parts, forms
from batchmark.orchestration.tasks import environment


@dag(
    dag_display_name="Environment check",
    schedule=None,
    params={"targets": forms.targets_param()},
    description="Check that everything a benchmark needs is in place",
    doc_md=__doc__,
    **dag_parts.dag_args("guard"),
)
def environment_check():
    dag_parts.with_report_link(dag_parts.task_of(environment.check_environment)())


environment_check()
