"""Judges whether a finished Batch job succeeded, from its description, log and document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.boto_clients import Clients
from batchmark.aws.job_description import (
    LOG_TAIL_LINES,
    JobDescription,
    failure_message,
    log_location,
    timing,
)
from batchmark.aws.job_hosts import JobHost
from batchmark.aws.job_log import last_lines, log_end, newest_lines
from batchmark.aws.job_parts import first_child
from batchmark.aws.result_bucket import RunStore
from batchmark.core.errors import CollectError
from batchmark.runs.own_jobs.check import is_its_own_error
from batchmark.runs.own_jobs.storing import store_document
from batchmark.runs.result_documents import ExpectedDocument
from batchmark_job.result.document import ResultDocument

OWN_TAIL_BYTES = 4 * 2**20  # all metrics that a wrapper tells take a third of it, if they are short


class JobOutcome(NamedTuple):
    failure: str | None
    timing: dict[str, Any]
    own_error: str | None = None  # that of a user's own job, which it would have again


def outcome(
    client: Clients,
    job: JobDescription,
    expected: ExpectedDocument | None,
    first_seen: Mapping[str, float] | None = None,
    host: JobHost | None = None,
) -> JobOutcome:
    """Judge a finished job, with blocking calls to S3 and CloudWatch Logs.

    Users' own jobs write no document, so this writes one on their behalf, even if they failed.

    Args:
        expected: the document that the job had to leave behind, if any.
        first_seen: see `job_description.timing`.
        host: the host of a user's own job, if it was looked up while the job ran.

    Raises:
        BotoCoreError, ClientError: an S3 request failed.
    """
    times = timing(job, first_seen)
    document, problem = None, None
    try:
        if expected:
            document = _document(client, job, expected, host)
    except CollectError as error:
        problem = f"it left no valid result document: {error}"
    if document and document.marks:
        times["marks"] = document.marks.model_dump(mode="json", exclude_none=True)
    check = document.own_job.check if document and document.own_job else None
    if check and not check.passed and check.kind != "exit_code":
        problem = f"its owner's check failed: {check.detail}"
    elif check and not check.passed and job["status"] == "SUCCEEDED":
        problem = check.detail
    if job["status"] == "SUCCEEDED" and problem is None:
        return JobOutcome(None, times)
    is_own = expected is not None and expected.own_job is not None
    lines = log_tail(client("logs"), job, is_own=is_own)
    by_itself = check and check.kind == "exit_code" and is_its_own_error(job)
    return JobOutcome(
        failure_message(job, lines, problem), times, check.detail if check and by_itself else None
    )


def _document(
    client: Clients, job: JobDescription, expected: ExpectedDocument, host: JobHost | None
) -> ResultDocument | None:
    """Return the document of a successful job, or of a user's own job that started an attempt."""
    store = RunStore(client("s3"), expected.bucket, expected.run_id)
    if expected.own_job and (stored := store_document(store, client, job, expected, host)):
        return stored
    if job["status"] != "SUCCEEDED":
        return None
    if expected.own_job:
        raise CollectError("Batch reports no attempt that ran and stopped")
    writer = first_child(job)
    return expected.read(store, writer["jobId"], len(writer["attempts"]))


def log_tail(logs: Any, job: JobDescription, *, is_own: bool) -> list[str]:
    """Return the last lines of a job's log, or a line saying why it can't be read.

    The list is empty if the job has no log. For a user's own job, the wrapper's lines are left out,
    because they would crowd out the job's own.
    """
    location = log_location(job)
    if location is None:
        return []
    try:
        if is_own:
            return last_lines(log_end(logs, location, most_bytes=OWN_TAIL_BYTES), LOG_TAIL_LINES)
        return newest_lines(logs, location, LOG_TAIL_LINES)
    except (BotoCoreError, ClientError) as error:  # the failure itself must still be reported
        return [f"(the log could not be read: {error})"]
