"""# Why isn't my job starting?

Finds out, for each queue of the targets, why a job in RUNNABLE or STARTING makes no progress, or
what would block the next one. It checks the states of the queue and its compute environments,
Batch's reason for the job, sizes and quotas, failed launches, the ECS cluster, routes and the
image. Each cause comes with evidence and a remedy, and is marked as certain or suspected. The table
is in the task's log and, as a page and as JSON, in the result bucket under `diagnoses/`.

It changes nothing and starts nothing.
"""

from airflow.sdk import dag

from batchmark.orchestration import dag_parts, forms
from batchmark.orchestration.tasks import diagnosis


@dag(
    dag_display_name="Diagnose queue",
    schedule=None,
    params={"targets": forms.targets_param()},
    description="Explain why a job isn't starting: causes, evidence and remedies",
    doc_md=__doc__,
    **dag_parts.dag_args("operations", retries=1),
)
def diagnose_queue():
    dag_parts.with_report_link(dag_parts.task_of(diagnosis.diagnose_queues, "diagnose")())


diagnose_queue()
