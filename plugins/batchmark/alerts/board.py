"""The alerts as a report lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchmark import change_words
from batchmark.alerts.message import alert_page, how_to_change
from batchmark.alerts.records import LISTED
from batchmark.changes_section import AlertBoard, AlertLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batchmark.alerts.records import Alert
    from batchmark.rates import Rate


def alert_board(
    alerts: Sequence[Alert], precision: Rate | None, airflow_url: str | None
) -> AlertBoard:
    """The alerts that nobody closed and no run saw recover, those without a verdict first.

    Args:
        precision: of all alerts, as `batchmark.alerts.precision` has it.
        airflow_url: of Airflow's UI; None where it is not configured.
    """
    listed = [alert for state in LISTED for alert in alerts if alert.state == state]
    return AlertBoard(
        lines=tuple(_line(alert, airflow_url) for alert in listed),
        precision=precision,
        how_to_change=how_to_change(listed[0].id, airflow_url) if listed else "",
    )


def _line(alert: Alert, airflow_url: str | None) -> AlertLine:
    change = alert.change
    return AlertLine(
        alert_id=alert.id,
        kind=change.kind,
        title=change_words.title(change),
        suite=change.points[0].series.suite,
        state=alert.state,
        since_run_id=change.first_run_id,
        change=change.points[0].change,
        change_url=alert_page(airflow_url) if airflow_url else None,
        note=alert.transitions[-1].note or None,
    )
