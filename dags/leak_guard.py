"""# Leak guard

Looks every hour for what bills though no Airflow run needs it: Batch jobs, instances and file
systems of this installation. What it found stands in `guard/<date>/` in the result bucket; of a
leak it tells the alert topic, and fails.

**It ends jobs whose run is over.** Everything else it only reports, unless `end_leaks` names it.
Jobs submitted by hand, and what lacks the installation's tag, it never touches.
"""

from datetime import timedelta

from airflow.sdk import CronTriggerTimetable, dag, get_current_context, task

from batchmark import guard_tasks


@dag(
    schedule=CronTriggerTimetable(
        "20 * * * *", timezone="UTC", run_immediately=timedelta(minutes=10)
    ),
    catchup=False,
    max_active_runs=1,
    params=guard_tasks.leak_params(),
    description="Jobs, instances and file systems that no run needs any more",
    tags=["batchmark", "guard"],
    doc_md=__doc__,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
)
def leak_guard():
    @task
    def look_for_leaks() -> str:
        return guard_tasks.look_for_leaks(get_current_context())

    @task
    def report_leaks(found_key: str) -> str:
        return guard_tasks.report_leaks(get_current_context(), found_key)

    report_leaks(look_for_leaks())


leak_guard()
