"""Spot reclaims: running attempts lose their instance."""

from __future__ import annotations

import threading
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from local_cloud.batch.jobs.job import Job

if TYPE_CHECKING:
    from local_cloud.batch.running.attempt import Attempt
    from local_cloud.batch.scheduling.scheduler import Scheduler


class SpotReclaim:
    """Interrupts attempts that run at any time between `begin` and `end`.

    Args:
        job_name: glob of the names of jobs to interrupt.
        compute_environment: name of the only one affected; None for all.
        after_seconds: time from an attempt's start, or from `begin`, to SIGTERM.
        notice_seconds: time from SIGTERM to SIGKILL.
        times: the number of attempts to interrupt; None for all.
        on_strike: called for each interruption, under the scheduler's lock.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        job_name: str,
        compute_environment: str | None,
        after_seconds: float,
        notice_seconds: float,
        times: int | None,
        on_strike: Callable[[], None],
    ) -> None:
        self._scheduler = scheduler
        self._job_name = job_name
        self._compute_environment = compute_environment
        self._after_seconds = after_seconds
        self._notice_seconds = notice_seconds
        self._times = times
        self._on_strike = on_strike
        self._is_over = False

    def begin(self) -> None:
        with self._scheduler.lock:
            self._scheduler.on_running.append(self._on_running)
            for job, attempt in self._scheduler.attempts.items():
                self._on_running(job, attempt)

    def end(self) -> None:
        with self._scheduler.lock:
            self._is_over = True
            self._scheduler.on_running.remove(self._on_running)

    def _on_running(self, job: Job, attempt: Attempt) -> None:
        environment = attempt.record.compute_environment
        if fnmatchcase(job.submission.name, self._job_name) and self._compute_environment in (
            None,
            environment,
        ):
            notice = threading.Timer(self._after_seconds, self._strike, (job, attempt))
            notice.daemon = True
            notice.start()

    def _strike(self, job: Job, attempt: Attempt) -> None:
        with self._scheduler.lock:
            over = self._is_over or self._times == 0
            under_way = self._scheduler.attempts.get(job) is attempt
            if over or not under_way or not attempt.lose_host(self._notice_seconds):
                return
            if self._times is not None:
                self._times -= 1
            self._on_strike()
