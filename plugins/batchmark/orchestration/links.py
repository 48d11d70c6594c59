"""The link from a task to its job's log, in AWS or the local cloud."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.types import TaskInstanceKey

from batchmark.aws.job_description import JobDescription, log_location, log_url
from batchmark.aws.result_bucket import browser_endpoint, is_aws


class JobLogLink(BaseOperatorLink):
    """Stored as an XCom: by the task when it defers, and by its trigger when the job has ended."""

    name = "Job log"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        return str(getattr(operator, "job_log_url", ""))


def job_log_url(batch: Any, job_id: str, job: JobDescription | None = None) -> str:
    """Return the page of a job's CloudWatch stream, or of the job before it has one.

    `batch` is the client that the job was submitted with. The local cloud, which it may belong to,
    shows logs by job id (local_cloud/log_pages.py).
    """
    region = batch.meta.region_name
    if not is_aws(batch):
        return f"{browser_endpoint(batch)}/local-cloud/jobs/{quote(job_id, safe='')}/log"
    location = log_location(job) if job else None
    if location is None:
        return (
            f"https://{region}.console.aws.amazon.com/batch/home?region={region}"
            f"#jobs/detail/{job_id}"
        )
    return log_url(location, region)
