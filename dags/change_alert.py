"""# Change an alert

Acknowledges an alert, or marks it as invalid, fixed or open. The alert's id is in its message and
in the report. The alert records the note and who triggered the run.

An alert recovers by itself when a run finds the old level restored; after that it can only be
marked as invalid. *Invalid* counts against the detector's precision; acknowledged, fixed and
recovered alerts count in its favour.
"""

from airflow.sdk import dag

from batchmark.orchestration import dag_parts
from batchmark.orchestration.tasks import alerts


@dag(
    dag_display_name="Change alert",
    schedule=None,
    params=alerts.change_params(),
    description="Acknowledge an alert, or mark it as invalid or fixed",
    doc_md=__doc__,
    **dag_parts.dag_args("alerts"),
)
def change_alert():
    dag_parts.task_of(alerts.change_alert)()


change_alert()
