"""# Self-test of the detector

Inserts steps of 3, 5, 10 and 25 % into copies of the real history, runs the detector after every
run as the schedule does, and shows how many steps it finds, after how many runs, and how many false
alarms it raises. The page and its figures are in the result bucket under `self_test/<date>/`.

It only reads the history: it submits no jobs and changes no alerts.
"""

from airflow.sdk import dag

from batchmark.orchestration import dag_parts
from batchmark.orchestration.tasks import self_test


@dag(
    dag_display_name="Detector self-test",
    schedule=dag_parts.schedule("0 5 * * 0"),
    params=self_test.self_test_params(),
    description="Measure how well the detector finds changes inserted into copies of this "
    "installation's history",
    doc_md=__doc__,
    **dag_parts.dag_args("regressions"),
)
def detector_self_test():
    tested = dag_parts.task_of(self_test.try_detector)()
    dag_parts.with_report_link(dag_parts.task_of(self_test.publish_self_test)(tested))


detector_self_test()
