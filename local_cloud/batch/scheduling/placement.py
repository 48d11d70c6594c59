"""Which compute environment a job can start in, and the reasons Batch gives where none can."""

from __future__ import annotations

from moto.batch.models import ComputeEnvironment, JobQueue

from local_cloud.batch.jobs.job import Job
from local_cloud.batch.scheduling.pool import Pool
from local_cloud.gaps.batch import invalid_reason

JOB_RESOURCE_REQUIREMENT = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
MAX_RESOURCE = "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE"
INVALID = "ACTION_REQUIRED - CE(s) associated with the job queue are invalid."


def stuck_reason(job: Job, pool: Pool) -> str | None:
    """The status reason of a job that can never start; None where it can."""
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
    """A queue's first compute environment that is ENABLED and VALID."""
    for environment in queue.environments:
        if environment.state == "ENABLED" and not invalid_reason(environment):
            return environment
    return None


def blocked_reason(queue: JobQueue) -> str | None:
    """The status reason of jobs whose queue has only INVALID environments; None otherwise."""
    return INVALID if all(map(invalid_reason, queue.environments)) else None
