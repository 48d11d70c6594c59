"""# Self-test of the detector

Inserts steps of 3, 5, 10 and 25 % into copies of the real history, runs the detector after every
run as the schedule does, and shows how many steps it finds, after how many runs, and how many false
alarms it raises. The page and its figures are in `self_test/<date>/` of the result bucket.

It only reads the history: it submits no job and changes no alert.
"""

from datetime import timedelta

from airflow.sdk import CronTriggerTimetable, dag, get_current_context, task

from batchmark.orchestration import dag_parts
from batchmark.orchestration.tasks import self_test


@dag(
    dag_display_name="Detector self-test",
    schedule=CronTriggerTimetable(
        "0 5 * * 0", timezone="UTC", run_immediately=timedelta(minutes=10)
    ),
    catchup=False,
    max_active_runs=1,
    params=self_test.self_test_params(),
    description="What the detector would find in this installation's own history",
    tags=["batchmark", "regressions"],
    doc_md=__doc__,
    default_args=dag_parts.default_args(),
)
def detector_self_test():
    @task
    def try_detector() -> str:
        return self_test.try_detector(get_current_context())

    @task
    def publish_self_test(tested_key: str) -> str:
        return self_test.publish_self_test(get_current_context(), tested_key)

    dag_parts.with_report_link(publish_self_test(try_detector()))


detector_self_test()
