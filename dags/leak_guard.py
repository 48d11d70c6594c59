"""# Leak guard

Looks every hour for Batch jobs, instances and file systems of this installation that cost money
although no Airflow run needs them. Its report is in the result bucket under `guard/<date>/`. If
something leaks, it sends an alert to the SNS topic and fails.

**It ends jobs whose run is over, and deletes file systems that a run created for itself**, once
that run is over. If this Airflow does not know the run, it deletes that run's file systems once
they are a day old. Everything else it only reports, unless `end_leaks` names it. It never touches
jobs submitted by hand, or anything without the installation's tag.
"""

from airflow.sdk import dag

from batchmark.orchestration import dag_parts
from batchmark.orchestration.tasks import leaks


@dag(
    dag_display_name="Leak guard",
    schedule=dag_parts.schedule("20 * * * *"),
    params=leaks.leak_params(),
    description="Find jobs, instances and file systems that no run needs any more",
    doc_md=__doc__,
    **dag_parts.dag_args("guard"),
)
def leak_guard():
    found = dag_parts.task_of(leaks.look_for_leaks)()
    dag_parts.with_report_link(dag_parts.task_of(leaks.report_leaks)(found))


leak_guard()
