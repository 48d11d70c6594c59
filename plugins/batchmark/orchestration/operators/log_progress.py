"""Copies a running job's progress lines to its Airflow task's log."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from batchmark.aws.job_description import JobDescription, log_location
from batchmark.aws.job_log import newest_lines
from batchmark.core import output

# CloudWatch answers 25 calls a second in all; a hundred jobs make ten of them.
EVERY_SECONDS = 10.0
ANSWER_SECONDS = 5.0  # a log that doesn't answer must not hold up what watches the job
NEWEST_LINES = 25
PROGRESS = re.compile(r"\[\d+/\d+\] .*")  # rows measured of all
_READERS = ThreadPoolExecutor(max_workers=2, thread_name_prefix="job-progress")


class LogProgress:
    """Logs the newest progress line in a job's log, at most once every EVERY_SECONDS.

    If the log can't be read, nothing is logged.
    """

    def __init__(self, logs: Callable[[], Any], say: Callable[[str], None]) -> None:
        self._logs = logs
        self._say = say
        self._looked_at = float("-inf")
        self._said: str | None = None

    async def look(self, job: JobDescription, now: float) -> None:
        """Log any new progress made by a running job; `now` is in seconds."""
        if now - self._looked_at < EVERY_SECONDS:
            return
        self._looked_at = now
        loop = asyncio.get_running_loop()
        try:
            reading = loop.run_in_executor(_READERS, self._newest, job)
            line = await asyncio.wait_for(reading, ANSWER_SECONDS)
        except Exception:
            return
        if line and line != self._said:
            self._said = line
            self._say(output.line(line))

    def _newest(self, job: JobDescription) -> str | None:
        location = log_location(job)
        if location is None:
            return None
        found = newest_lines(self._logs(), location, NEWEST_LINES)
        return next((line for line in reversed(found) if PROGRESS.fullmatch(line)), None)
