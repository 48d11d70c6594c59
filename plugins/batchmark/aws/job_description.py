"""Reads job descriptions as returned by DescribeJobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

from batchmark.core.failures.exit_codes import exit_code
from batchmark.core.output import in_lines

JobDescription = dict[str, Any]

FINISHED = ("SUCCEEDED", "FAILED")
ON_AN_INSTANCE = ("STARTING", "RUNNING")
LOG_TAIL_LINES = 50  # judgment: holds a traceback and what led to it
DEFAULT_LOG_GROUP = "/aws/batch/job"  # which Batch creates if it is missing
AWSLOGS = "awslogs"  # CloudWatch Logs' driver, also a container's default
BLOCKING = "blocking"  # the mode in which it drops no lines
LINE_CHARACTERS = 2000  # an event in CloudWatch may have a megabyte
# Batch's status reason for an attempt whose instance was terminated, such as by a Spot reclaim.
HOST_TERMINATED = "Host EC2"
ENDED_BY_ITSELF = "Essential container in task exited"  # the status reason if nothing stopped it
# When Batch retries a job, as in the job definitions (terraform/modules/batch/main.tf): a retry
# strategy sent with a job replaces the definition's, including its rules.
RETRY_RULES = (
    {"action": "RETRY", "onStatusReason": f"{HOST_TERMINATED}*"},
    {"action": "RETRY", "onReason": "CannotPullContainer*"},
    {"action": "RETRY", "onReason": "DockerTimeoutError*"},
    {"action": "EXIT", "onReason": "*"},
)
# Keys under which a description holds its array job's children or multi-node job's main node
# (job_parts.py).
CHILDREN = "children"
PARENT_REASON = "parentStatusReason"  # the array job's own reason, beside a child's


class LogLocation(NamedTuple):
    group: str
    stream: str


def container_instance(job: JobDescription) -> str | None:
    """Return the ARN of the last attempt's container instance, or None if it has none yet."""
    arn: str | None = job.get("container", {}).get("containerInstanceArn")
    return arn


def log_location(job: JobDescription) -> LogLocation | None:
    """Return the last attempt's log stream, or None if it hasn't started or logs elsewhere.

    The log group comes from the job definition or is Batch's default.
    """
    container = job.get("container", {})
    stream = container.get("logStreamName")
    if not stream or log_driver(container) != AWSLOGS:
        return None
    return LogLocation(log_options(container).get("awslogs-group", DEFAULT_LOG_GROUP), stream)


def log_driver(container: Mapping[str, Any]) -> str:
    """Return the log driver of a job's or job definition's container."""
    return str((container.get("logConfiguration") or {}).get("logDriver", AWSLOGS))


def log_options(container: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of the container's log driver."""
    return dict((container.get("logConfiguration") or {}).get("options") or {})


def may_drop_lines(container: Mapping[str, Any]) -> bool:
    """Whether the container logs to CloudWatch in a mode that can drop lines.

    It can if no mode is set: non-blocking has been ECS's default since 25 June 2025.
    """
    return log_driver(container) == AWSLOGS and log_options(container).get("mode") != BLOCKING


def log_url(location: LogLocation, region: str) -> str:
    """Return the URL of a log stream in the CloudWatch console, which escapes names twice."""
    group, stream = (quote_plus(quote_plus(part)).replace("%", "$") for part in location)
    return (
        f"https://{quote(region)}.console.aws.amazon.com/cloudwatch/home?region={quote(region)}"
        f"#logsV2:log-groups/log-group/{group}/log-events/{stream}"
    )


def batch_time(milliseconds: int) -> datetime:
    """Convert a Batch timestamp, in milliseconds since the epoch, to a datetime."""
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)


def has_run(attempt: Mapping[str, Any]) -> bool:
    """Whether the container of an attempt (or of a job) ran; its start time might be missing."""
    return "startedAt" in attempt or attempt.get("container", {}).get("exitCode") is not None


def seconds_between(start: int | None, stop: int | None) -> float | None:
    """Return the seconds between two Batch timestamps in ms; None if one is missing or invalid.

    A stop that is not later than the start is invalid.
    """
    return None if start is None or stop is None or stop <= start else (stop - start) / 1000


def run_seconds(attempt: Mapping[str, Any]) -> float | None:
    """Return how many seconds an attempt ran: 0 if never, None if a time is missing or invalid."""
    if not has_run(attempt):
        return 0.0
    return seconds_between(attempt.get("startedAt"), attempt.get("stoppedAt"))


def sum_or_none(seconds: Iterable[float | None]) -> float | None:
    """Sum the values; return None if any is unknown, because the sum would be too low."""
    every = list(seconds)
    known = [each for each in every if each is not None]
    return sum(known) if len(known) == len(every) else None


def all_seconds(job: JobDescription | None) -> float | None:
    """Return the seconds that a job's attempts ran in total; None if unknown or the job is live.

    For an array job, this is the time during which any child ran, as they share one instance.
    """
    if job is None or job["status"] not in FINISHED:
        return None
    jobs = job.get(CHILDREN) or [job]
    attempts = [each for one in jobs for each in one.get("attempts", ()) if has_run(each)]
    in_all = sum_or_none(map(run_seconds, attempts))
    if in_all is None or len(jobs) == 1:
        return in_all
    seconds, until = 0.0, 0
    for start, stop in sorted((each["startedAt"], each["stoppedAt"]) for each in attempts):
        seconds += max(0, stop - max(start, until)) / 1000
        until = max(until, stop)
    return seconds


def container_warning(job: JobDescription) -> str | None:
    """Return a warning if Batch reports a problem with a successful job's container, else None.

    For example, a process in the container might have been killed.
    """
    told = (job, job["attempts"][-1])  # the reason may stand in either
    reason = next(filter(None, (each.get("container", {}).get("reason") for each in told)), None)
    if job["status"] != "SUCCEEDED" or reason is None:
        return None
    return f"Batch reports a problem with its container, which exited with code 0: {reason}"


def waiting_since(job: JobDescription) -> float:
    """Return when a pending job began to wait for its next attempt, in epoch seconds."""
    stops = [attempt.get("stoppedAt", 0) for attempt in job.get("attempts", [])]
    return float(max(job["createdAt"], *stops, 0)) / 1000


def host_terminated(attempt: Mapping[str, Any]) -> bool:
    """Whether an attempt (or a job's last one) ended because its instance was terminated."""
    return str(attempt.get("statusReason", "")).startswith(HOST_TERMINATED)


def is_reclaimed(job: JobDescription) -> bool:
    """Whether a job failed because its last attempt lost its host, not because someone ended it."""
    was_ended = job.get("isTerminated") or job.get("isCancelled")
    return job["status"] == "FAILED" and host_terminated(job) and not was_ended


def timing(job: JobDescription, first_seen: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Return the lengths of a job's phases in seconds, and its timestamps, as a JSON object.

    Batch does not record when a job became RUNNABLE or STARTING. `first_seen` therefore holds the
    time, in seconds since the epoch, when a watcher last saw the job enter each state.
    """
    attempts = job.get("attempts", [])
    seconds = [run_seconds(attempt) for attempt in attempts]
    begins = [attempt["startedAt"] for attempt in attempts if "startedAt" in attempt]
    waited = (begins[0] - job["createdAt"]) / 1000 if begins else None
    moments = {"created_at": "createdAt", "started_at": "startedAt", "stopped_at": "stoppedAt"}
    return {
        "job_id": job["jobId"],
        "status": job["status"],
        **{name: _moment_text(job, field) for name, field in moments.items() if field in job},
        "first_seen": {
            status: datetime.fromtimestamp(at, tz=UTC).isoformat()
            for status, at in (first_seen or {}).items()
        },
        "phases": {
            "until_first_start_seconds": None if waited and waited < 0 else waited,
            "last_attempt_seconds": seconds[-1] if seconds else None,
            "earlier_attempts_seconds": sum_or_none(seconds[:-1]),
        },
        "attempts": [
            {
                "started_at": _moment_text(attempt, "startedAt"),
                "stopped_at": _moment_text(attempt, "stoppedAt"),
                "exit_code": attempt.get("container", {}).get("exitCode"),
                "reason": _reason(attempt),
            }
            for attempt in attempts
        ],
    }


def _moment_text(record: Mapping[str, Any], field: str) -> str | None:
    return batch_time(record[field]).isoformat() if field in record else None


def failure_message(
    job: JobDescription, log_lines: Sequence[str], problem: str | None = None
) -> str:
    """Describe why a job failed: exit code, reasons, all attempts and the end of its log.

    `problem` explains why a job that Batch reports as SUCCEEDED counts as failed, or adds facts.
    """
    text = f"Batch job {job['jobId']} ({job['jobName']}) is {job['status']}"
    if problem and job["status"] == "SUCCEEDED":
        text = f"{text}, but {problem}"
    else:
        text = f"{text}: {'; '.join(filter(None, (*_facts(job), problem)))}"
    lines = [text, *_child_lines(job), *_attempt_lines(job)]
    if location := log_location(job):
        where = f"log stream {location.stream} in log group {location.group}"
        lines.append(
            f"Last {len(log_lines)} lines of {where}:" if log_lines else f"The {where} is empty."
        )
        lines += [line[:LINE_CHARACTERS].expandtabs() for line in log_lines]
    elif (driver := log_driver(job.get("container", {}))) != AWSLOGS:
        lines.append(
            f"Its log is not in CloudWatch: its job definition uses the log driver {driver}."
        )
    else:
        lines.append("It has no log: no attempt was started.")
    return in_lines(lines)


def _facts(job: JobDescription) -> list[str]:
    container = job.get("container", {})
    code = container.get("exitCode")
    never = "no exit code: its container never finished"
    reason = job.get("statusReason")
    was_stopped = reason not in (None, ENDED_BY_ITSELF)
    facts = [never if code is None else exit_code(code, was_stopped=was_stopped)]
    if reason:
        facts.append(f"status reason: {reason}")
    if detail := container.get("reason"):
        facts.append(f"container: {detail}")
    return facts


def _child_lines(job: JobDescription) -> list[str]:
    """List an array job's failed children with reasons, or a multi-node job's main node."""
    children = job.get(CHILDREN, ())
    if job.get("nodeProperties") and children:
        return [f"Its main node: {'; '.join(_facts(children[0]))}"]
    failed = [child for child in children if child["status"] == "FAILED"]
    if not failed:
        return []
    return [
        f"{len(failed)} of {len(children)} children failed:",
        *(f"{child['jobId'].rpartition(':')[2]}: {'; '.join(_facts(child))}" for child in failed),
    ]


def _attempt_lines(job: JobDescription) -> list[str]:
    lines = []
    for number, attempt in enumerate(job.get("attempts", []), start=1):
        when = "never started"
        if "startedAt" in attempt:
            until = f"{batch_time(attempt['stoppedAt']):%X}" if "stoppedAt" in attempt else "?"
            when = f"{batch_time(attempt['startedAt']):%Y-%m-%d %X} to {until} UTC"
        code = attempt.get("container", {}).get("exitCode")
        ended = "no exit code" if code is None else f"exit code {code}"
        lines.append(f"Attempt {number}: {when}, {ended}, {_reason(attempt) or 'no reason given'}")
    return lines


def _reason(attempt: Mapping[str, Any]) -> str | None:
    reasons = (attempt.get("statusReason"), attempt.get("container", {}).get("reason"))
    return "; ".join(filter(None, reasons)) or None
