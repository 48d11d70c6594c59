"""The Airflow assets that Batchmark's DAGs update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from batchmark.alerts.outbox import RunMessage
    from batchmark.run import CollectedRun

# No address of its own: the bucket is known only once Terraform has published it.
REPORT = Asset("batchmark_report", group="batchmark")
RESULTS = Asset("batchmark_results", group="batchmark")
REGRESSIONS = Asset("batchmark_regressions", group="batchmark")

# An event is a row of Airflow's database, and an environment may move a thousand series at once.
TOLD_SERIES = 20

_TOLD_OF_A_JOB: Any = {
    "planned": {"target", "suite", "repeat"},
    "job_id": True,
    "replaced_job_id": True,
    "purchase_option": True,
    "created_at": True,
    "runnable_at": True,
    "starting_at": True,
    "started_at": True,
    "stopped_at": True,
    "document": {"marks"},
}


def report_metadata(run: CollectedRun, report_key: str) -> dict[str, Any]:
    """What an event of REPORT says: where the report lies, and each job's times and phases."""
    return {
        "run_id": run.run_id,
        "report_key": report_key,
        "jobs": [job.model_dump(mode="json", include=_TOLD_OF_A_JOB) for job in run.jobs],
        "lost_jobs": len(run.lost),
    }


def results_metadata(
    run_id: str, history_keys: Sequence[str], rows: int, targets: Iterable[str]
) -> dict[str, Any]:
    """What an event of RESULTS says: where the run's new rows of the history lie."""
    return {
        "run_id": run_id,
        "history_keys": list(history_keys),
        "rows": rows,
        "targets": sorted(set(targets)),
    }


def regressions_metadata(message: RunMessage, message_key: str) -> dict[str, Any]:
    """What an event of REGRESSIONS says: the alerts that a run opened; their ids are for good."""
    return {
        "run_id": message.run_id,
        "message_key": message_key,
        "alerts": [
            {
                "id": alert.id,
                "kind": alert.change.kind,
                "environment": alert.change.environment,
                "first_run_id": alert.change.first_run_id,
                "change": alert.change.points[0].change,
                "usd_per_month": alert.change.usd_per_month,
                "series_count": len(alert.series),
                "series": [one.model_dump(mode="json") for one in alert.series[:TOLD_SERIES]],
                "causes": [cause.model_dump() for cause in alert.change.causes],
            }
            for alert in message.new_alerts
        ],
    }
