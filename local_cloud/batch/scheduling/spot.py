"""Takes the instances of running attempts away, as a Spot reclaim does."""

from __future__ import annotations

import threading
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from local_cloud.batch.attempt import Attempt
    from local_cloud.batch.job import Job
    from local_cloud.batch.scheduler import Scheduler


class SpotReclaim:
    """Interrupts attempts between `begin` and `end`: those that run by then, and later ones.

    Args:
        job_name: which jobs, a glob.
        compute_environment: only there; None for anywhere.
        after_seconds: from an attempt's start, or from `begin`, to the notice.
        notice_seconds: from SIGTERM to SIGKILL.
        times: how many attempts; None for all.
        struck: called, under the scheduler's lock, for each.
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
        struck: Callable[[], None],
    ) -> None:
        self._scheduler = scheduler
        self._job_name = job_name
        self._compute_environment = compute_environment
        self._after_seconds = after_seconds
        self._notice_seconds = notice_seconds
        self._times = times
        self._struck = struck
        self._is_over = False

    def begin(self) -> None:
        with self._scheduler.lock:
            self._scheduler.on_running.append(self._on_running)
            for job, attempt in self._scheduler.running():
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
            if over or job.running is not attempt or not attempt.lose_host(self._notice_seconds):
                return
            if self._times is not None:
                self._times -= 1
            self._struck()
