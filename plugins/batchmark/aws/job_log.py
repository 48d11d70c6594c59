"""Reads a job's log stream: its last lines, or the marked lines of users' own jobs."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from batchmark.aws.job_description import LogLocation
from batchmark_job.result.metric import PREFIX as METRIC_MARK

MOST_BYTES = 16 * 2**20  # a job of all suites writes some hundred kilobytes
EVENT_BYTES = 26  # that CloudWatch counts for each event beside its message
# Prefixes of the marked lines of users' own jobs: metrics, those of a job's file, and facts.
FILE_MARK = "BATCHMARK_METRIC_FILE "
FACT_MARK = "BATCHMARK_JOB "
WRAPPERS_MARKS = (FILE_MARK, FACT_MARK)
MARKS = (METRIC_MARK, *WRAPPERS_MARKS)
# A CloudWatch filter regex, which has no groups; plain terms would miss marks after a colour code,
# whose last letter joins the word.
MARKED = f"%{METRIC_MARK.strip()}|{FACT_MARK.strip()}%"
# A metric's mark anywhere in a line; not the name of the file's variable, BATCHMARK_METRICS.
METRIC_ANYWHERE = re.compile(rf"({METRIC_MARK.strip()}|{FILE_MARK.strip()})\b")
MOST_PAGES = 500  # of a megabyte of found lines each, or less where few are found

log = logging.getLogger(__name__)


class MarkedLine(NamedTuple):
    """A log line that begins with one of MARKS or contains a metric's mark."""

    milliseconds: int  # since the epoch
    text: str
    number: int | None = None  # among all lines of the log, from 1, where these were counted


def log_end(logs: Any, location: LogLocation, *, most_bytes: int = MOST_BYTES) -> str:
    """Return the last lines of a log stream, each ending in a line feed.

    `most_bytes` limits their size, including the 26 bytes that CloudWatch counts for each event,
    and thereby the number of its 1 MB pages. If earlier lines are omitted, the first line says so.
    The result is empty if the stream does not exist.
    """
    pages: deque[bytes] = deque()
    left = most_bytes
    asked = {"logGroupName": location.group, "logStreamName": location.stream}
    while True:
        try:
            page = logs.get_log_events(startFromHead=False, **asked)
        except logs.exceptions.ResourceNotFoundException:
            break
        lines = [f"{event['message']}\n".encode(errors="replace") for event in page["events"]]
        kept = _last_that_fit(lines, left)
        pages.appendleft(b"".join(kept))
        if len(kept) < len(lines):
            where = f"log stream {location.stream} in log group {location.group}"
            pages.appendleft(f"(earlier lines are omitted; see {where})\n".encode())
            break
        left -= sum(map(_size, lines))
        # CloudWatch repeats its token at the beginning of the stream.
        if page["nextBackwardToken"] == asked.get("nextToken"):
            break
        asked["nextToken"] = page["nextBackwardToken"]
    return b"".join(pages).decode()


def newest_lines(logs: Any, location: LogLocation, most: int) -> list[str]:
    """Return the messages of a log stream's newest events, at most `most`, oldest first."""
    asked = {"logGroupName": location.group, "logStreamName": location.stream, "limit": most}
    page = logs.get_log_events(startFromHead=False, **asked)
    return [event["message"] for event in page["events"]]


def marked_lines(
    logs: Any, location: LogLocation, *, most_pages: int = MOST_PAGES, numbered: bool = False
) -> Iterator[MarkedLine]:
    """Yield the stream's lines that begin with one of MARKS or contain a metric's mark, in order.

    CloudWatch does the filtering unless `numbered` is set; then all lines are read in order to
    number the marked ones. Only one page is held in memory. An event can have several lines; a
    carriage return, as in progress bars, also ends a line. Invalid Unicode is replaced.

    Raises:
        BotoCoreError, ClientError: the stream does not exist or access is denied.
    """
    asked: dict[str, Any] = {"logGroupName": location.group, "logStreamNames": [location.stream]}
    if not numbered:
        asked["filterPattern"] = MARKED
    count = 0
    for _ in range(most_pages):
        page = logs.filter_log_events(**asked)
        for event in page["events"]:
            message = event["message"].encode(errors="replace").decode()
            for line in message.removesuffix("\n").split("\n"):
                count += 1
                for text in line.split("\r"):
                    if text.startswith(MARKS) or METRIC_ANYWHERE.search(text):
                        yield MarkedLine(event["timestamp"], text, count if numbered else None)
        if not page.get("nextToken"):
            return
        asked["nextToken"] = page["nextToken"]
    log.warning("Stopped reading after %d pages of log stream %s", most_pages, location.stream)


def _last_that_fit(lines: Sequence[bytes], most_bytes: int) -> Sequence[bytes]:
    sizes = accumulate(map(_size, reversed(lines)))
    count = sum(size <= most_bytes for size in sizes)
    return lines[len(lines) - count :]


def _size(line: bytes) -> int:
    return len(line) - len("\n") + EVENT_BYTES


def last_lines(text: str, count: int) -> list[str]:
    """Return a text's last `count` lines, ignoring empty lines and those written by the wrapper."""
    kept = (
        line for line in text.split("\n") if line.strip() and not line.startswith(WRAPPERS_MARKS)
    )
    return list(deque(kept, maxlen=count))
