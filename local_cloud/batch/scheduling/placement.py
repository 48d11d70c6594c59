"""Finds the compute environment in which a job can start, or Batch's reason why it can't."""

from __future__ import annotations

import math

from moto.batch.models import ComputeEnvironment, JobQueue

from local_cloud.batch.jobs.job import Job
from local_cloud.batch.jobs.resources import Requirements
from local_cloud.batch.scheduling.instances import Machine, only_instance
from local_cloud.batch.scheduling.pool import Pool
from local_cloud.faults.kinds import NoCapacity
from local_cloud.faults.under_way import active_faults
from local_cloud.gaps.batch.backend import invalid_reason

JOB_RESOURCE_REQUIREMENT = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
MAX_RESOURCE = "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE"
INVALID = "ACTION_REQUIRED - CE(s) associated with the job queue are invalid."


def stuck_reason(job: Job, machine: Machine) -> str | None:
    """Return a status reason for a job that can never start, or None if it can start."""
    needed, environments = job.submission.requirements, job.submission.queue.environments
    if not any(machine.can_ever_hold(environment, needed) for environment in environments):
        return (
            f"{JOB_RESOURCE_REQUIREMENT} - The job resource requirement (vCPU/memory/GPU) is "
            "higher than that can be met by the CE(s) attached to the job queue. "
            f"{remedy(environments[0], needed, machine)}"
        )
    limits = [int(environment.compute_resources["maxvCpus"]) for environment in environments]
    if needed.vcpus > max(limits):
        return (
            f"{MAX_RESOURCE} - CE(s) associated with the job queue does not have enough "
            "maxVcpu to meet the job requirement."
        )
    return None


def remedy(environment: ComputeEnvironment, needed: Requirements, machine: Machine) -> str:
    """Say which limit the job exceeds: that of its environment's only instance, or the pool's."""
    size = only_instance(environment)
    if size is not None and not needed.within(size):
        return (
            f"The only instance in {environment.name} has {size.vcpus:g} vCPUs, "
            f"{size.memory_mib} MiB and {size.gpus} GPUs."
        )
    return enlargement(machine.claim(environment, needed), machine.pool)


def enlargement(needed: Requirements, pool: Pool) -> str:
    """Describe the pool's size and the options that would make it large enough."""
    options = {
        f"--vcpus {math.ceil(needed.vcpus)}": needed.vcpus > pool.vcpus,
        f"--memory {needed.memory_mib}": needed.memory_mib > pool.memory_mib,
        f"--gpus {needed.gpus}": needed.gpus > pool.gpus,
    }
    return (
        f"The local cloud's pool has {pool.vcpus:g} vCPUs, {pool.memory_mib} MiB and {pool.gpus} "
        f"GPUs: restart it with at least {' '.join(filter(options.get, options))}."
    )


def environment_for(job: Job) -> ComputeEnvironment | None:
    """Find the queue's first environment that is ENABLED, VALID and suitable, and has capacity."""
    for environment in job.submission.queue.environments:
        if (
            environment.state == "ENABLED"
            and not invalid_reason(environment)
            and not any(fault.covers(environment.name) for _, fault in active_faults(NoCapacity))
            and (takes_nodes(environment) or not job.submission.is_multi_node)
        ):
            return environment
    return None


def takes_nodes(environment: ComputeEnvironment) -> bool:
    """Return whether an environment can run multi-node jobs, which need On-Demand instances.

    As in AWS, a job without a suitable environment stays RUNNABLE without a status reason.
    """
    return bool(environment.compute_resources["type"] == "EC2")


def blocked_reason(queue: JobQueue) -> str | None:
    """Return a status reason for waiting jobs, or None unless all environments are INVALID."""
    return INVALID if all(map(invalid_reason, queue.environments)) else None
