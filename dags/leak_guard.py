"""# Leak guard

Looks every hour for Batch jobs, instances and file systems of this installation that cost money
and that no Airflow run needs. Its report is in `guard/<date>/` of the result bucket. If something
leaks, it sends an alert to the topic and fails.

**It ends jobs whose run is over, and deletes file systems that a run stood up for itself**, once
that run is over, or not known here for a day. Everything else it only reports, unless `end_leaks`
names it. It never touches jobs submitted by hand, nor anything without the installation's tag.
"""

from datetime import timedelta

from airflow.sdk import CronTriggerTimetable, dag, get_current_context, task

from batchmark.orchestration import dag_parts
from batchmark.orchestration.tasks import leaks


@dag(
    dag_display_name="Leak guard",
    schedule=CronTriggerTimetable(
        "20 * * * *", timezone="UTC", run_immediately=timedelta(minutes=10)
    ),
    catchup=False,
    max_active_runs=1,
    params=leaks.leak_params(),
    description="Jobs, instances and file systems that no run needs any more",
    tags=["batchmark", "guard"],
    doc_md=__doc__,
    default_args=dag_parts.default_args(),
)
def leak_guard():
    @task
    def look_for_leaks() -> str:
        return leaks.look_for_leaks(get_current_context())

    @task
    def report_leaks(found_key: str) -> str:
        return leaks.report_leaks(get_current_context(), found_key)

    dag_parts.with_report_link(report_leaks(look_for_leaks()))


leak_guard()
