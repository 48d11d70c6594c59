"""Dependencies between jobs: `dependsOn`, plain, N_TO_N or SEQUENTIAL.

As in AWS, SEQUENTIAL with a job's id is a plain dependency, whatever the job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from local_cloud.batch.jobs.job import Job

MAX_DEPENDENCIES = 20
FindJob = Callable[[str], Job | None]


def check(depends_on: Sequence[dict[str, str]], array_size: int | None, find: FindJob) -> None:
    """Raise ValueError for dependencies that AWS refuses."""
    if len(depends_on) > MAX_DEPENDENCIES:
        raise ValueError(
            f"A job can depend on at most {MAX_DEPENDENCIES} jobs, not on {len(depends_on)}"
        )
    for dependency in depends_on:
        job_id, kind = dependency.get("jobId"), dependency.get("type")
        sequential = kind == "SEQUENTIAL"
        if kind and array_size is None and not (sequential and job_id):
            raise ValueError(f"Dependency type {kind} is for array jobs only")
        if sequential and not job_id:
            continue
        other = find(job_id) if job_id else None
        if other is None:
            raise ValueError(f"Job dependency {job_id} does not exist")
        if kind == "N_TO_N" and len(other.children) != array_size:
            raise ValueError(
                f"N_TO_N needs array jobs of the same size: job {job_id} has "
                f"{len(other.children)} children, this job {array_size}"
            )


def prerequisites(
    depends_on: Sequence[dict[str, str]], index: int | None, siblings: Sequence[Job], find: FindJob
) -> list[Job]:
    """The jobs that must succeed first; `siblings` are the array children created so far."""
    found: list[Job] = []
    for dependency in depends_on:
        other = find(dependency["jobId"]) if dependency.get("jobId") else None
        kind = dependency.get("type")
        if kind == "SEQUENTIAL" and other is None:
            found.extend(siblings[-1:])
        elif kind == "N_TO_N" and other is not None and index is not None:
            found.append(other.children[index])
        elif other is not None:
            found.append(other)
    return found
