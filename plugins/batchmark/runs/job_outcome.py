"""What a Batch job came to: success, or why not, told from all that its end left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from batchmark.documents import ExpectedDocument
from batchmark.exceptions import CollectError
from batchmark.job_description import (
    LOG_TAIL_LINES,
    JobDescription,
    failure_message,
    log_location,
    timing,
)
from batchmark.store import RunStore


class Outcome(NamedTuple):
    failure: str | None
    timing: dict[str, Any]


def outcome(
    client: Callable[[str], Any],
    job: JobDescription,
    expected: ExpectedDocument | None,
    first_seen: Mapping[str, float] | None = None,
) -> Outcome:
    """Judge a job that has ended; it blocks on S3 and CloudWatch Logs.

    Args:
        client: gives a boto3 client by its service's name.
        expected: the document without which its success is a failure; None for any job.
        first_seen: see job_description.timing.

    Raises:
        BotoCoreError, ClientError: S3 doesn't answer now, so nothing is known yet.
    """
    times = timing(job, first_seen)
    if job["status"] != "SUCCEEDED":
        return Outcome(failure_message(job, log_tail(client("logs"), job)), times)
    if expected is None:
        return Outcome(None, times)
    try:
        store = RunStore(client("s3"), expected.bucket, expected.run_id)
        document = expected.read_last(store, job)
    except CollectError as error:
        problem = f"it left no valid result document: {error}"
        return Outcome(failure_message(job, log_tail(client("logs"), job), problem), times)
    if document.marks:
        times["marks"] = document.marks.model_dump(mode="json", exclude_none=True)
    return Outcome(None, times)


def log_tail(logs: Any, job: JobDescription) -> list[str]:
    """The last lines of a job's log, or one that says why there are none."""
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
    except (BotoCoreError, ClientError) as error:  # the failure itself must still be told
        return [f"(the log could not be read: {error})"]
    return [event["message"] for event in answer["events"]]
