"""# Change an alert

Acknowledges an alert, or says that it is invalid, fixed, or open after all. Its id stands in the
message and in the report. Who triggered it is kept with the alert, and so is the note.

An alert recovers by itself when a run sees that the level is back; then it may only be called
invalid. *Invalid* counts against the detector's precision, everything else for it.
"""

from datetime import timedelta

from airflow.sdk import dag, get_current_context, task

from batchmark import alert_tasks


@dag(
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params=alert_tasks.change_params(),
    description="Acknowledge an alert, or call it invalid or fixed",
    tags=["batchmark", "alerts"],
    doc_md=__doc__,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
)
def change_alert():
    @task(task_id="change_alert")
    def change() -> str:
        return alert_tasks.change_alert(get_current_context())

    change()


change_alert()
