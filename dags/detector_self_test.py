"""# Self-test of the detector

Puts steps of 3, 5, 10 and 25 % into copies of the real history, calls the detector after every run
as the schedule does, and shows how many it finds, after how many runs, and which alarms it raises
where nothing was put. The page and its figures are `self_test/<date>/` in the result bucket.

It reads the history, submits no job and changes no alert.
"""

from datetime import timedelta

from airflow.sdk import CronTriggerTimetable, dag, get_current_context, task

from batchmark import self_test_tasks


@dag(
    schedule=CronTriggerTimetable(
        "0 5 * * 0", timezone="UTC", run_immediately=timedelta(minutes=10)
    ),
    catchup=False,
    max_active_runs=1,
    params=self_test_tasks.self_test_params(),
    description="What the detector would find in this installation's own history",
    tags=["batchmark", "regressions"],
    doc_md=__doc__,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
)
def detector_self_test():
    @task
    def try_detector() -> str:
        return self_test_tasks.try_detector(get_current_context())

    @task
    def publish_self_test(tested_key: str) -> str:
        return self_test_tasks.publish_self_test(get_current_context(), tested_key)

    publish_self_test(try_detector())


detector_self_test()
