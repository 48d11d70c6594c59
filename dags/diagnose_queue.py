"""# Why does my job not start?

Asks AWS of each target's queues why a job in RUNNABLE or STARTING does not go on, or what would
hold the next one: states of queue and compute environments, what Batch says of the job, sizes and
quotas, failed launches, the ECS cluster, routes, the image. Each cause comes with its evidence and
remedy, and is called certain or suspected. The table stands in the task's log and, as a page and as
JSON, in `diagnoses/` of the result bucket.

It changes nothing and starts nothing.
"""

from datetime import timedelta

from airflow.sdk import dag, get_current_context, task

from batchmark import dag_parts, diagnosis_tasks


@dag(
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params={"targets": dag_parts.targets_param()},
    description="Why a job does not start: causes, evidence, remedies",
    tags=["batchmark", "operations"],
    doc_md=__doc__,
    default_args={"retries": 1, "retry_delay": timedelta(seconds=30)},
)
def diagnose_queue():
    @task
    def diagnose() -> str:
        return diagnosis_tasks.diagnose_queues(get_current_context())

    diagnose()


diagnose_queue()
