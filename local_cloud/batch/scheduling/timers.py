"""Timers of jobs: attempt timeouts, and time limits of their queue on a state."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from functools import partial

from local_cloud.batch.jobs.job import Job
from local_cloud.clock import later, now_milliseconds
from local_cloud.gaps.batch.backend import state_time_limit_actions


class JobTimers:
    """The timers of each job, cancelled together."""

    def __init__(self) -> None:
        self._timers: dict[str, list[threading.Timer]] = defaultdict(list)

    def set_timeout(self, job: Job, time_out: Callable[[], None]) -> None:
        """Call `time_out` once attemptDurationSeconds have passed since the attempt's start."""
        seconds = job.submission.timeout.get("attemptDurationSeconds")
        if seconds is not None:
            started_at = job.started_at or now_milliseconds()
            left = float(seconds) - (now_milliseconds() - started_at) / 1000
            self._set(job, max(0.0, left), time_out)

    def set_state_limits(self, job: Job, cancel: Callable[[Job, str], None]) -> None:
        """Cancel the job after the time that its queue's jobStateTimeLimitActions allow."""
        for action in state_time_limit_actions(job.submission.queue):
            reason = action["reason"]
            if action["state"] == "RUNNABLE" and (job.status_reason or "").startswith(reason):
                self._set(job, float(action["maxTimeSeconds"]), partial(cancel, job, reason))

    def cancel(self, job: Job) -> None:
        for timer in self._timers.pop(job.id, []):
            timer.cancel()

    def clear(self) -> None:
        for timers in list(self._timers.values()):
            for timer in timers:
                timer.cancel()
        self._timers.clear()

    def _set(self, job: Job, seconds: float, function: Callable[[], None]) -> None:
        self._timers[job.id].append(later(seconds, function))
