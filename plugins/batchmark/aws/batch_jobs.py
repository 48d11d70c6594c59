"""Describes, lists, submits and terminates Batch jobs through a boto3 client."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as BotocoreConnectionError

from batchmark.aws.boto_clients import all_pages
from batchmark.aws.job_description import FINISHED, PARENT_REASON, JobDescription
from batchmark.aws.job_parts import (
    ON_THE_WAY,
    child_ids,
    main_node_ids,
    occupies_instance,
    with_children,
    with_main_node,
)
from batchmark.core.names import INSTALLATION_TAG

# Jobs with these reasons did not fail on their own: their tasks submit new ones.
KILLED = "The Airflow task was killed on its worker"
STEPPED_BACK = "Another job of its queue was submitted just before; it is submitted again after it"
DESCRIBE_JOBS_LIMIT = 100  # job ids per call, by the API reference
REASON_CHARACTERS = 1024  # of CancelJob and TerminateJob, by the API reference
SUBMIT_AGAIN_AFTER_SECONDS = (2.0, 5.0, 10.0, 20.0)
THROTTLING_CODES = ("TooManyRequestsException", "RequestLimitExceeded", "SlowDown")
EXPIRED_CODES = ("ExpiredToken", "ExpiredTokenException", "RequestExpired")  # of credentials

log = logging.getLogger(__name__)


def describe_jobs(batch: Any, job_ids: Sequence[str]) -> dict[str, JobDescription]:
    """Describe jobs in as few calls as possible, leaving out those that Batch doesn't know.

    Array jobs are described with their children, and multi-node jobs with their main node.
    """
    found = _described(batch, job_ids)
    parts = {job_id: child_ids(job) or main_node_ids(job) for job_id, job in found.items()}
    seen = _described(batch, [one for ids in parts.values() for one in ids])
    return {
        job_id: (with_main_node if main_node_ids(job) else with_children)(
            job, [seen[one] for one in parts[job_id] if one in seen]
        )
        for job_id, job in found.items()
    }


def _described(batch: Any, job_ids: Sequence[str]) -> dict[str, JobDescription]:
    found = {}
    for start in range(0, len(job_ids), DESCRIBE_JOBS_LIMIT):
        answer = batch.describe_jobs(jobs=list(job_ids[start : start + DESCRIBE_JOBS_LIMIT]))
        found.update({job["jobId"]: job for job in answer["jobs"]})
    return found


def list_jobs(batch: Any, queues: Iterable[str | None], prefix: str) -> list[dict[str, Any]]:
    """List jobs whose names begin with `prefix`, in any state, as ListJobs summaries, newest first.

    Queues are names or ARNs; None is skipped. A finished array job is described together with its
    children, because only they show why it ended.
    """
    named = [{"name": "JOB_NAME", "values": [f"{prefix}*"]}]
    found = [
        job
        for queue in dict.fromkeys(filter(None, queues))
        for job in all_pages(batch, "list_jobs", "jobSummaryList", jobQueue=queue, filters=named)
        if job["jobName"].startswith(prefix)  # Batch ignores case
    ]
    arrays = describe_jobs(
        batch, [job["jobId"] for job in found if child_ids(job) and not is_live(job)]
    )
    found = [arrays.get(job["jobId"], job) for job in found]
    return sorted(found, key=lambda job: int(job["createdAt"]), reverse=True)


def with_installation_tag(
    batch: Any, jobs: Iterable[dict[str, Any]], installation: str | None
) -> list[dict[str, Any]]:
    """Keep only jobs with the installation's tag. Names prove nothing, because users copy jobs.

    Jobs that Batch can't describe are left out.
    """
    found = list(jobs)
    described = _described(batch, [job["jobId"] for job in found])
    return [
        job
        for job in found
        if (known := described.get(job["jobId"]))
        and known.get("tags", {}).get(INSTALLATION_TAG) == installation
    ]


def is_live(job: JobDescription) -> bool:
    return job["status"] not in FINISHED


def was_withdrawn(job: JobDescription) -> bool:
    """Whether the submitting task itself terminated the job, and therefore submits a new one."""
    reasons = {job.get("statusReason"), job.get(PARENT_REASON)}
    return not reasons.isdisjoint({KILLED, STEPPED_BACK})


def live_jobs(batch: Any, queue: str) -> list[dict[str, Any]]:
    """List a queue's live jobs (not array jobs' children) as ListJobs summaries, oldest first.

    States are queried in the order in which a job passes through them, so that none is missed.
    """
    found = {
        job["jobId"]: job
        for status in ON_THE_WAY
        for job in all_pages(batch, "list_jobs", "jobSummaryList", jobQueue=queue, jobStatus=status)
    }
    return sorted(found.values(), key=lambda job: (int(job["createdAt"]), str(job["jobId"])))


def is_queue_at_work(batch: Any, queues: Iterable[str], but: str = "") -> bool:
    """Whether any job in these queues other than `but` occupies an instance.

    PENDING jobs are checked too: an array job's parent stays PENDING while its children run, and
    ListJobs omits the children.
    """
    return any(
        occupies_instance(job) and job["jobId"] != but
        for queue in dict.fromkeys(queues)
        for status in ("RUNNING", "STARTING", "PENDING")
        for job in all_pages(batch, "list_jobs", "jobSummaryList", jobQueue=queue, jobStatus=status)
    )


def submit_job(
    batch: Any,
    request: dict[str, Any],
    find: Callable[[], str | None],
    *,
    sleep: Callable[[float], object] = time.sleep,
) -> str:
    """Submit a job at most once, as far as Batch allows, and return its id.

    SubmitJob takes no idempotency token, so the job can exist even if the response was lost. `find`
    therefore looks it up by name before each retry. One gap remains: ListJobs can lag behind
    SubmitJob by a few seconds, so an early retry can submit a second job with the same name. When
    the run is collected, any job still running is terminated. `batch` must not retry by itself.

    Raises:
        BotoCoreError, ClientError: Batch rejected the job or failed to respond five times.
    """
    for seconds in SUBMIT_AGAIN_AFTER_SECONDS:
        try:
            return str(batch.submit_job(**request)["jobId"])
        except (BotoCoreError, ClientError) as error:
            if not is_passing(error):
                raise
            log.warning(
                "Could not submit %s; trying again in %.0f s: %s",
                request["jobName"],
                seconds,
                error,
            )
        sleep(seconds)
        if job_id := find():
            return job_id
    return str(batch.submit_job(**request)["jobId"])


def is_passing(error: Exception) -> bool:
    """Whether the error is transient: throttling, outage, lost connection, expired credentials."""
    if isinstance(error, ClientError):
        code = str(error.response["Error"].get("Code"))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        passing_codes = (*THROTTLING_CODES, *EXPIRED_CODES)
        return status >= 500 or status == 429 or "Throttl" in code or code in passing_codes
    return isinstance(error, HTTPClientError | BotocoreConnectionError)


def terminate_job(batch: Any, job_id: str, reason: str) -> None:
    """Terminate a job in any state; a finished job is not affected."""
    log.warning("Terminating Batch job %s: %s", job_id, reason)
    batch.terminate_job(jobId=job_id, reason=reason[:REASON_CHARACTERS])
