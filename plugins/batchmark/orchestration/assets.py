"""The Airflow assets that Batchmark's DAGs update."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

from batchmark.core.run import StoredRun

if TYPE_CHECKING:
    from batchmark.analysis.comparison import Comparison
    from batchmark.changes.alerts.outbox import RunMessage

# Without URIs: the bucket is known only once Terraform has published it.
REPORT = Asset("batchmark_report", group="batchmark")
RESULTS = Asset("batchmark_results", group="batchmark")
REGRESSIONS = Asset("batchmark_regressions", group="batchmark")

# Cap for an event, a row of Airflow's database: an update may change a thousand series at once.
MOST_SERIES = 20

_JOB_FIELDS: Any = {
    "planned": {"target", "suite", "repeat"},
    **dict.fromkeys(("job_id", "replaced_job_id", "purchase_option"), True),
    **dict.fromkeys(("created_at", "runnable_at", "starting_at", "started_at", "stopped_at"), True),
}


def report_metadata(run: StoredRun, comparison: Comparison, report_key: str) -> dict[str, Any]:
    """Return a REPORT event's metadata: the report's key, and the times of each job's stages."""
    documents = {
        job.job_id: job.model_dump(mode="json", include={"marks"})
        for target in comparison.targets
        for job in target.jobs
    }
    return {
        "run_id": run.run_id,
        "report_key": report_key,
        "jobs": [
            job.model_dump(mode="json", include=_JOB_FIELDS)
            | {"document": documents.get(job.job_id)}
            for job in run.jobs
        ],
        "lost_jobs": len(run.lost),
    }


def results_metadata(
    run_id: str, history_keys: Sequence[str], rows: int, targets: Iterable[str]
) -> dict[str, Any]:
    """Return a RESULTS event's metadata: the run's history keys, row count and targets."""
    return {
        "run_id": run_id,
        "history_keys": list(history_keys),
        "rows": rows,
        "targets": sorted(set(targets)),
    }


def regressions_metadata(message: RunMessage, message_key: str) -> dict[str, Any]:
    """Return the metadata of a REGRESSIONS event: the alerts the run opened, with permanent ids."""
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
                "series": [key.model_dump(mode="json") for key in alert.series[:MOST_SERIES]],
                "causes": [cause.model_dump() for cause in alert.change.causes],
            }
            for alert in message.new_alerts
        ],
    }
