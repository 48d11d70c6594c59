"""The Airflow assets that Batchmark's DAGs update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

if TYPE_CHECKING:
    from batchmark.run import CollectedRun

# No address of its own: the bucket is known only once Terraform has published it.
REPORT = Asset("batchmark_report", group="batchmark")

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
