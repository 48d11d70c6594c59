"""Runs one benchmark job on AWS Batch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from airflow.providers.amazon.aws.operators.batch import BatchOperator
from airflow.sdk.exceptions import AirflowException

from batchmark.job_description import FINISHED, LOG_TAIL_LINES, failure_message, log_location
from batchmark.triggers.batch import BenchmarkJobTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from batchmark.job_description import JobDescription

JOB_ID_XCOM = "job_id"


class BenchmarkJobOperator(BatchOperator):
    """A deferring BatchOperator whose failures say why, and which never resumes on a worker.

    The XCom `job_id` is there from the submission on, also for a job that fails.

    Args:
        longest_seconds: how long the job may take in all, waiting included; then it is terminated.
    """

    def __init__(self, *, longest_seconds: int | None = None, **kwargs: Any) -> None:
        super().__init__(deferrable=True, **kwargs)
        self.longest_seconds = longest_seconds

    def execute(self, context: Context) -> str | None:
        self.submit_job(context)
        context["ti"].xcom_push(key=JOB_ID_XCOM, value=self.job_id)
        job = self._persist_links(context)
        if job["status"] in FINISHED:
            return self._conclude(job)
        self.defer(
            timeout=self.execution_timeout,
            trigger=BenchmarkJobTrigger(
                job_id=str(self.job_id),
                deadline=time.time() + self.longest_seconds if self.longest_seconds else None,
                waiter_delay=self.poll_interval,
                aws_conn_id=self.aws_conn_id,
                region_name=self.region_name,
                verify=self.verify,
                botocore_config=self.botocore_config,
            ),
            method_name="execute_complete",
        )
        return None

    def execute_complete(self, context: Context, event: Any = None) -> str:  # noqa: ARG002
        """Only `dag.test()` comes here: it resumes a task that its trigger has already ended."""
        ti = context["ti"]
        self.job_id = ti.xcom_pull(task_ids=self.task_id, key=JOB_ID_XCOM, map_indexes=ti.map_index)
        return self._conclude(self.hook.get_job_description(self.job_id))

    def _conclude(self, job: JobDescription) -> str:
        if job["status"] == "SUCCEEDED":
            return str(job["jobId"])
        raise AirflowException(failure_message(job, self._log_tail(job)))

    def _log_tail(self, job: JobDescription) -> list[str]:
        location = log_location(job)
        fetcher = self._get_batch_log_fetcher(job["jobId"]) if location else None
        return fetcher.get_last_log_messages(LOG_TAIL_LINES) if fetcher else []
