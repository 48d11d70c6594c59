"""# Send alerts

Retries every hour to send the messages that a channel did not accept, and fails until it does.

A message whose task died while sending it is not sent again, as it may have arrived. The next run's
message mentions it.
"""

from datetime import timedelta

from airflow.sdk import CronTriggerTimetable, dag, get_current_context, task

from batchmark.orchestration import dag_parts
from batchmark.orchestration.tasks import alerts


@dag(
    dag_display_name="Send alerts",
    schedule=CronTriggerTimetable(
        "40 * * * *", timezone="UTC", run_immediately=timedelta(minutes=10)
    ),
    catchup=False,
    max_active_runs=1,
    description="Messages that did not arrive",
    tags=["batchmark", "alerts"],
    doc_md=__doc__,
    default_args=dag_parts.default_args(),
)
def send_alerts():
    @task
    def send_pending() -> None:
        alerts.send_pending(get_current_context())

    send_pending()


send_alerts()
