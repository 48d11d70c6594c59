"""Whether a finished Batch job succeeded, judged by its description, log and document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.job_description import (
    LOG_TAIL_LINES,
    JobDescription,
    failure_message,
    log_location,
    timing,
)
from batchmark.aws.result_bucket import RunStore
from batchmark.core.errors import CollectError
from batchmark.runs.result_documents import ExpectedDocument


class JobOutcome(NamedTuple):
    failure: str | None
    timing: dict[str, Any]


def outcome(
    client: Callable[[str], Any],
    job: JobDescription,
    expected: ExpectedDocument | None,
    first_seen: Mapping[str, float] | None = None,
) -> JobOutcome:
    """Judge a finished job; blocks on S3 and CloudWatch Logs.

    `expected` is the document that it must have left, if any; `first_seen` see
    job_description.timing.

    Raises:
        BotoCoreError, ClientError: S3 does not answer at the moment.
    """
    times = timing(job, first_seen)
    if job["status"] != "SUCCEEDED":
        return JobOutcome(failure_message(job, log_tail(client("logs"), job)), times)
    if expected is None:
        return JobOutcome(None, times)
    try:
        store = RunStore(client("s3"), expected.bucket, expected.run_id)
        document = expected.read_last(store, job)
    except CollectError as error:
        problem = f"it left no valid result document: {error}"
        return JobOutcome(failure_message(job, log_tail(client("logs"), job), problem), times)
    if document.marks:
        times["marks"] = document.marks.model_dump(mode="json", exclude_none=True)
    return JobOutcome(None, times)


def log_tail(logs: Any, job: JobDescription) -> list[str]:
    """The last lines of a job's log, or a line that says why there are none."""
    location = log_location(job)
    if location is None:
        return []
    try:
        answer = logs.get_log_events(
            logGroupName=location.group,
            logStreamName=location.stream,
            limit=LOG_TAIL_LINES,
            startFromHead=False,
        )
    except (BotoCoreError, ClientError) as error:  # the failure itself must still be reported
        return [f"(the log could not be read: {error})"]
    return [event["message"] for event in answer["events"]]
