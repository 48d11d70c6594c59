"""Attempt timeouts, and what a queue does with jobs that can never start."""

from __future__ import annotations

import threading
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from local_cloud.batch.job import now_milliseconds
from local_cloud.gaps.batch import invalid_reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from moto.batch.models import ComputeEnvironment, JobQueue

    from local_cloud.batch.job import Job
    from local_cloud.batch.pool import Pool

JOB_RESOURCE_REQUIREMENT = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
MAX_RESOURCE = "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE"
INVALID = "ACTION_REQUIRED - CE(s) associated with the job queue are invalid."


def stuck_reason(job: Job, pool: Pool) -> str | None:
    """Batch's own words for a job that stays RUNNABLE for ever, or None."""
    needed = job.submission.requirements
    if not pool.can_ever_hold(needed):
        return (
            f"{JOB_RESOURCE_REQUIREMENT} - The job resource requirement (vCPU/memory/GPU) is "
            "higher than that can be met by the CE(s) attached to the job queue."
        )
    limits = [
        environment.compute_resources["maxvCpus"]
        for environment in job.submission.queue.environments
        if environment.compute_resources
    ]
    if limits and needed.vcpus > max(int(limit) for limit in limits):
        return (
            f"{MAX_RESOURCE} - CE(s) associated with the job queue does not have enough "
            "maxVcpu to meet the job requirement."
        )
    return None


def environment_for(queue: JobQueue) -> ComputeEnvironment | None:
    """The first of a queue's compute environments that takes jobs."""
    for environment in queue.environments:
        if environment.state == "ENABLED" and not invalid_reason(environment):
            return environment
    return None


def blocked_reason(queue: JobQueue) -> str | None:
    """Batch's own words for a queue whose jobs wait until somebody mends its environments."""
    return INVALID if all(map(invalid_reason, queue.environments)) else None


class Alarms:
    """Timers by job; a job's timers go with it."""

    def __init__(self) -> None:
        self._timers: dict[str, list[threading.Timer]] = defaultdict(list)

    def set_timeout(self, job: Job, ring: Callable[[], None]) -> None:
        """Ring when the attempt's attemptDurationSeconds have passed since it was started."""
        seconds = job.submission.timeout.get("attemptDurationSeconds")
        if seconds is not None:
            started_at = job.started_at or now_milliseconds()
            left = float(seconds) - (now_milliseconds() - started_at) / 1000
            self._set(job, max(0.0, left), ring)

    def set_state_limits(self, job: Job, cancel: Callable[[Job, str], None]) -> None:
        """Cancel the job when its queue's jobStateTimeLimitActions say so."""
        for action in getattr(job.submission.queue, "state_time_limit_actions", None) or []:
            reason = action["reason"]
            if action["state"] == "RUNNABLE" and (job.status_reason or "").startswith(reason):
                self._set(job, float(action["maxTimeSeconds"]), partial(cancel, job, reason))

    def cancel(self, job: Job) -> None:
        """Forget a job's timers."""
        for timer in self._timers.pop(job.id, []):
            timer.cancel()

    def clear(self) -> None:
        """Forget all timers."""
        for timers in list(self._timers.values()):
            for timer in timers:
                timer.cancel()
        self._timers.clear()

    def _set(self, job: Job, seconds: float, ring: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, ring)
        timer.daemon = True
        self._timers[job.id].append(timer)
        timer.start()
