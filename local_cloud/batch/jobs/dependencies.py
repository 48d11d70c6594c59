"""Checks and resolves a job's plain and SEQUENTIAL dependencies (`dependsOn`).

As in AWS, SEQUENTIAL with a job id counts as a plain dependency for any kind of job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from local_cloud.batch.jobs.job import Job
from local_cloud.gaps.batch import missing

SEQUENTIAL = "SEQUENTIAL"
MAX_DEPENDENCIES = 20  # limit of SubmitJob
FindJob = Callable[[str], Job | None]


def check(depends_on: Sequence[dict[str, str]], array_size: int | None, find: FindJob) -> None:
    """Raise ValueError for dependencies that AWS rejects, ClientException for unsupported ones."""
    if len(depends_on) > MAX_DEPENDENCIES:
        raise ValueError(
            f"A job can depend on at most {MAX_DEPENDENCIES} jobs, not {len(depends_on)}"
        )
    for dependency in depends_on:
        job_id, kind = dependency.get("jobId"), dependency.get("type")
        if kind not in (None, SEQUENTIAL):
            raise missing.refusal(f"{kind} dependencies")
        if kind and not job_id:
            if array_size is None:
                raise ValueError(f"Dependency type {kind} is valid only for array jobs")
        elif not job_id or find(job_id) is None:
            raise ValueError(f"Job dependency {job_id} does not exist")


def prerequisites(
    depends_on: Sequence[dict[str, str]], siblings: Sequence[Job], find: FindJob
) -> list[Job]:
    """Return the jobs that must succeed first; `siblings` are array children with lower indexes."""
    found: list[Job] = []
    for dependency in depends_on:
        if other := find(dependency.get("jobId", "")):
            found.append(other)
        elif dependency.get("type") == SEQUENTIAL:
            found.extend(siblings[-1:])
    return found
