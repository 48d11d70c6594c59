"""The link from a task to its job's log, in AWS or in the local cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from batchmark.job_description import log_location, log_url
from batchmark.store import browser_endpoint, is_aws

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

    from batchmark.job_description import JobDescription


class JobLogLink(BaseOperatorLink):
    """An XCom holds it: the task when it defers, then its trigger when the job has ended."""

    name = "Job log"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        return str(getattr(operator, "job_log_url", ""))


def job_log_url(batch: Any, job_id: str, job: JobDescription | None = None) -> str:
    """Where a person reads a job's log: its CloudWatch stream, or its page before it has one.

    Args:
        batch: the boto3 client that the job was submitted with; tells AWS from the local cloud,
            which shows logs by job id (local_cloud/log_pages.py).
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
