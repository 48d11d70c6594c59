"""Reads what Batch's DescribeJobs says of one job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

JobDescription = dict[str, Any]

FINISHED = ("SUCCEEDED", "FAILED")
LOG_TAIL_LINES = 50


class LogLocation(NamedTuple):
    group: str
    stream: str


def log_location(job: JobDescription) -> LogLocation | None:
    """Where the job's last attempt logs to; None before it has started.

    The group is the one of the job definition, or Batch's default.
    """
    container = job.get("container", {})
    stream = container.get("logStreamName")
    if not stream:
        return None
    options = container.get("logConfiguration", {}).get("options", {})
    return LogLocation(options.get("awslogs-group", "/aws/batch/job"), stream)


def log_url(location: LogLocation, region: str) -> str:
    """The stream in the CloudWatch console, which wants its names escaped twice."""
    group, stream = (quote_plus(quote_plus(part)).replace("%", "$") for part in location)
    return (
        f"https://{quote(region)}.console.aws.amazon.com/cloudwatch/home?region={quote(region)}"
        f"#logsV2:log-groups/log-group/{group}/log-events/{stream}"
    )


def moment(job: JobDescription, field: str) -> datetime:
    """One of Batch's timestamps, which are milliseconds since the epoch."""
    return datetime.fromtimestamp(job[field] / 1000, tz=UTC)


def run_seconds(attempt: Mapping[str, Any]) -> float:
    """How long one of a job's attempts ran; 0 where its container never started."""
    if "startedAt" not in attempt or "stoppedAt" not in attempt:
        return 0.0
    return float(max(0, attempt["stoppedAt"] - attempt["startedAt"])) / 1000


def all_seconds(job: JobDescription | None) -> float | None:
    """How long all of a job's attempts ran; None where Batch does not tell, or not yet."""
    if job is None or job["status"] not in FINISHED:
        return None
    attempts = job.get("attempts", ())
    if any("startedAt" in one and "stoppedAt" not in one for one in attempts):
        return None
    return sum(map(run_seconds, attempts))


def failure_message(job: JobDescription, log_lines: Sequence[str]) -> str:
    """Why a job failed: exit code, reasons, attempts and the end of its log."""
    container = job.get("container", {})
    facts = []
    if (code := container.get("exitCode")) is not None:
        facts.append(f"exit code {code}")
    else:
        facts.append("no exit code: its container never ran to an end")
    if reason := job.get("statusReason"):
        facts.append(f"status reason: {reason}")
    if detail := container.get("reason"):
        facts.append(f"container: {detail}")
    if attempts := job.get("attempts"):
        facts.append(f"attempts: {len(attempts)}")
    text = f"Batch job {job['jobId']} ({job['jobName']}) is {job['status']}: {'; '.join(facts)}"
    location = log_location(job)
    if location is None:
        return f"{text}\nIt has no log: no attempt was started."
    where = f"log stream {location.stream} of {location.group}"
    if not log_lines:
        return f"{text}\nThe {where} is empty."
    return "\n".join([text, f"Last {len(log_lines)} lines of {where}:", *log_lines])
