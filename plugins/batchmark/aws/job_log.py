"""Reads the end of a job's log stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from batchmark.aws.job_description import LogLocation

MOST_BYTES = 16 * 2**20  # a job of all suites writes some hundred kilobytes
EVENT_BYTES = 26  # that CloudWatch counts for each event beside its message


def log_end(logs: Any, location: LogLocation, *, most_bytes: int = MOST_BYTES) -> str:
    """The last lines of a log stream, each with its line feed.

    They are of `most_bytes` at most, as CloudWatch counts them in its pages of a megabyte; so a log
    of many short lines asks for no more pages. Where lines are left out, the first one says so. At
    the beginning CloudWatch repeats the token. Empty if the stream does not exist.
    """
    pages: deque[bytes] = deque()
    left = most_bytes
    token: dict[str, str] = {}
    while True:
        try:
            page = logs.get_log_events(
                logGroupName=location.group,
                logStreamName=location.stream,
                startFromHead=False,
                **token,
            )
        except logs.exceptions.ResourceNotFoundException:
            break
        lines = [f"{event['message']}\n".encode(errors="replace") for event in page["events"]]
        kept = _last_that_fit(lines, left)
        pages.appendleft(b"".join(kept))
        if len(kept) < len(lines):
            where = f"log stream {location.stream} of {location.group}"
            pages.appendleft(f"(earlier lines are left out; see {where})\n".encode())
            break
        left -= sum(map(_size, lines))
        if page["nextBackwardToken"] == token.get("nextToken"):
            break
        token = {"nextToken": page["nextBackwardToken"]}
    return b"".join(pages).decode()


def _last_that_fit(lines: Sequence[bytes], most_bytes: int) -> Sequence[bytes]:
    sizes = accumulate(map(_size, reversed(lines)))
    count = sum(size <= most_bytes for size in sizes)
    return lines[len(lines) - count :]


def _size(line: bytes) -> int:
    return len(line) - len("\n") + EVENT_BYTES


def last_lines(text: str, count: int) -> list[str]:
    """The last lines of a text that ends with a line feed."""
    return text.removesuffix("\n").rsplit("\n", count)[-count:] if text else []
