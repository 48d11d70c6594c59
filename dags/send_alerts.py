"""# Send alerts

Sends every hour what quiet hours held back, once they are over, and what a channel did not take.
It fails while one still does not.

A message whose task died while sending is not sent again: it may have arrived. The next run's
message mentions it.
"""

from datetime import timedelta

from airflow.sdk import CronTriggerTimetable, dag, get_current_context, task

from batchmark import alert_tasks


@dag(
    schedule=CronTriggerTimetable(
        "40 * * * *", timezone="UTC", run_immediately=timedelta(minutes=10)
    ),
    catchup=False,
    max_active_runs=1,
    description="Messages that were held or did not arrive",
    tags=["batchmark", "alerts"],
    doc_md=__doc__,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
)
def send_alerts():
    @task
    def send_pending() -> None:
        alert_tasks.send_pending(get_current_context())

    send_pending()


send_alerts()
