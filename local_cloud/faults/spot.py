"""Spot reclaims: running attempts lose their instance."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

from local_cloud.batch.jobs.job import Job
from local_cloud.batch.running.attempt import Attempt
from local_cloud.batch.scheduling.scheduler import Scheduler
from local_cloud.clock import later
from local_cloud.faults.kinds import SpotInterruption


class SpotReclaim:
    """Interrupts attempts that run at any time between `begin` and `end`.

    `on_strike` is called for each interruption, under the scheduler's lock.
    """

    def __init__(
        self, scheduler: Scheduler, fault: SpotInterruption, on_strike: Callable[[], None]
    ) -> None:
        self._scheduler, self._fault, self._on_strike = scheduler, fault, on_strike
        self._left = fault.times  # how many attempts are still to be interrupted; None for all

    def begin(self) -> None:
        with self._scheduler.lock:
            self._scheduler.on_running.append(self._on_running)
            for job, attempt in self._scheduler.attempts.items():
                self._on_running(job, attempt)

    def end(self) -> None:
        with self._scheduler.lock:
            self._left = 0
            self._scheduler.on_running.remove(self._on_running)

    def _on_running(self, job: Job, attempt: Attempt) -> None:
        fault = self._fault
        affected = fault.compute_environment in (None, attempt.record.compute_environment)
        if affected and fnmatchcase(job.submission.name, fault.job_name):
            later(fault.after_seconds, self._strike, job, attempt)

    def _strike(self, job: Job, attempt: Attempt) -> None:
        with self._scheduler.lock:
            under_way = self._scheduler.attempts.get(job) is attempt
            if self._left == 0 or not under_way:
                return
            if not attempt.announce_reclaim(self._fault.notice_seconds):
                return
            if self._left is not None:
                self._left -= 1
            self._on_strike()
        later(self._fault.notice_seconds, attempt.lose_host, self._fault.shutdown_seconds)
