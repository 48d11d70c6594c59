"""# Change an alert

Acknowledges an alert, or marks it as invalid, fixed or open. Its id is in the message and the
report. The alert keeps who triggered this, and the note.

An alert recovers by itself when a run finds the level restored; then it can only be marked as
invalid. *Invalid* counts against the detector's precision, all other states count for it.
"""

from airflow.sdk import dag, get_current_context, task

from batchmark.orchestration import dag_parts
from batchmark.orchestration.tasks import alerts


@dag(
    dag_display_name="Change alert",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params=alerts.change_params(),
    description="Acknowledge an alert, or mark it as invalid or fixed",
    tags=["batchmark", "alerts"],
    doc_md=__doc__,
    default_args=dag_parts.default_args(),
)
def change_alert():
    @task(task_id="change_alert")
    def change() -> str:
        return alerts.change_alert(get_current_context())

    change()


change_alert()
