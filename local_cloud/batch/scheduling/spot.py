"""Spot reclaims: running attempts lose their instance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from local_cloud.batch.jobs.job import Job
from local_cloud.clock import later

if TYPE_CHECKING:
    from local_cloud.batch.running.attempt import Attempt
    from local_cloud.batch.scheduling.scheduler import Scheduler


@dataclass(eq=False)
class SpotReclaim:
    """Interrupts attempts that run at any time between `begin` and `end`."""

    scheduler: Scheduler
    job_name: str  # a glob
    compute_environment: str | None  # the only one affected; None for all
    after_seconds: float  # from an attempt's start, or from `begin`, to the notice
    notice_seconds: float  # from the notice to the instance's end
    shutdown_seconds: float  # from SIGTERM, which comes with that end, to SIGKILL
    times: int | None  # how many attempts are still to be interrupted; None for all
    on_strike: Callable[[], None]  # called for each interruption, under the scheduler's lock

    def begin(self) -> None:
        with self.scheduler.lock:
            self.scheduler.on_running.append(self._on_running)
            for job, attempt in self.scheduler.attempts.items():
                self._on_running(job, attempt)

    def end(self) -> None:
        with self.scheduler.lock:
            self.times = 0
            self.scheduler.on_running.remove(self._on_running)

    def _on_running(self, job: Job, attempt: Attempt) -> None:
        affected = self.compute_environment in (None, attempt.record.compute_environment)
        if affected and fnmatchcase(job.submission.name, self.job_name):
            later(self.after_seconds, self._strike, job, attempt)

    def _strike(self, job: Job, attempt: Attempt) -> None:
        with self.scheduler.lock:
            under_way = self.scheduler.attempts.get(job) is attempt
            if self.times == 0 or not under_way:
                return
            if not attempt.announce_reclaim(self.notice_seconds):
                return
            if self.times is not None:
                self.times -= 1
            self.on_strike()
        later(self.notice_seconds, attempt.lose_host, self.shutdown_seconds)
