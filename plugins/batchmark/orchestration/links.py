"""Links from tasks to a job's log and result, and to a run's page."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseOperator, BaseOperatorLink, Context
from airflow.sdk.configuration import conf
from airflow.sdk.types import TaskInstanceKey

from batchmark.aws.job_description import JobDescription, log_location, log_url
from batchmark.aws.job_parts import most_informative_child
from batchmark.aws.result_bucket import RunStore, browser_endpoint, is_aws
from batchmark.core.names import PAGES


def pages_url() -> str:
    """Return the URL of our pages, or just the path if Airflow's base URL isn't configured."""
    return str(conf.get("api", "base_url", fallback="")).rstrip("/") + PAGES


def run_url(dag_id: str, run_id: str) -> str:
    """Return the URL of the page for a run of one of our DAGs."""
    return f"{pages_url()}/dag-runs/{dag_id}/{quote(run_id, safe='')}"


def page_url(context: Context, store: RunStore, key: str, *, is_runs: bool = True) -> str:
    """Return a stored page's URL, in Airflow if its base URL is configured, or else in the bucket.

    `is_runs` says whether the page is the run's main page.
    """
    if not conf.get("api", "base_url", fallback=None):
        return store.object_url(key)
    if is_runs:
        return run_url(context["ti"].dag_id, context["run_id"])
    return f"{pages_url()}/files/{quote(key)}"


def result_url(prefix: str, job_id: str) -> str:
    """Return the URL for the result document that a job writes under `prefix`, an s3:// URI."""
    key = prefix.removeprefix("s3://").partition("/")[2]
    return f"{pages_url()}/results/{quote(key)}{quote(job_id, safe='')}"


class ReportLink(BaseOperatorLink):
    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        return run_url(ti_key.dag_id, ti_key.run_id)


class JobLink(BaseOperatorLink):
    """A link to a page about a task's job, stored as an XCom by the task and by its trigger."""

    attribute: str  # of the task's operator, which has the address

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        return str(getattr(operator, self.attribute, ""))


class JobResultLink(JobLink):
    name = "Result"
    attribute = "job_result_url"


class JobLogLink(JobLink):
    name = "Log"
    attribute = "job_log_url"


def job_log_url(batch: Any, job_id: str, job: JobDescription | None = None) -> str:
    """Return the URL of a job's CloudWatch log stream, or of the job itself if it has none yet.

    `batch` is the client that submitted the job. A local cloud serves logs by job id
    (local_cloud/log_pages.py).
    """
    region = batch.meta.region_name
    if job is not None:
        job_id = most_informative_child(job)["jobId"]
    if not is_aws(batch):
        return f"{browser_endpoint(batch)}/local-cloud/jobs/{quote(job_id, safe='')}/log"
    location = log_location(job) if job else None
    if location is None:
        return (
            f"https://{region}.console.aws.amazon.com/batch/home?region={region}"
            f"#jobs/detail/{job_id}"
        )
    return log_url(location, region)
