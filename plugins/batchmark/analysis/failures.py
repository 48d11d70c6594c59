"""Lists a run's failed jobs."""

from __future__ import annotations

from batchmark.core.failures.endings import FailedJob
from batchmark.core.run import LostJob, StoredJob, StoredRun


def failed_jobs(run: StoredRun) -> tuple[FailedJob, ...]:
    """List failed jobs, those with results first; none are known for runs from older releases."""
    jobs: tuple[StoredJob | LostJob, ...] = (*run.jobs, *run.lost)
    return tuple(
        FailedJob(
            target=job.planned.target,
            measures=job.planned.measures,
            repeat=job.planned.repeat,
            job_id=job.job_id,
            log_url=None if isinstance(job, LostJob) else job.log_url,
            ending=job.ending,
        )
        for job in jobs
        if job.ending
    )
