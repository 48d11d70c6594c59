"""# Send alerts

Retries hourly to send messages that a channel did not accept, and fails until all are sent.

A message is not sent again if the task died while sending it, because it may have arrived. The next
run's message mentions it.
"""

from airflow.sdk import dag

from batchmark.orchestration import dag_parts
from batchmark.orchestration.tasks import alerts


@dag(
    dag_display_name="Send alerts",
    schedule=dag_parts.schedule("40 * * * *"),
    description="Resend alert messages that were not delivered",
    doc_md=__doc__,
    **dag_parts.dag_args("alerts"),
)
def send_alerts():
    dag_parts.task_of(alerts.send_pending)()


send_alerts()
