"""Builds the environment variables for a job's command."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from local_cloud.batch.jobs.job import Job
from local_cloud.batch.jobs.overrides import variables_of
from local_cloud.batch.running.runtime import Launch
from local_cloud.settings import Settings

# Replace what a container has from its image; no other variable of the server is passed on.
FROM_THE_SERVER = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH")
# Identifies the job's role: recorded calls show it as the caller.
ACCESS_KEY_ID = "job"
HOST_METADATA_PATH = "/_host"
TASK_METADATA_PATH = "/v4"


def for_node(launch: Launch, basis: Mapping[str, str]) -> dict[str, str]:
    """Return all of a node's variables; those that Batch reserves override the container's."""
    return {
        **basis,
        **launch.container.environment,
        **batch(launch.job),
        **multi_node(launch.job, launch.node, launch.main_node_address),
        **gpus(launch.gpu_ids),
    }


def aws(launch: Launch, settings: Settings) -> dict[str, str]:
    """Return variables that point AWS's SDKs to the local cloud and nowhere else."""
    return {
        "AWS_ENDPOINT_URL": settings.job_endpoint_url,
        "AWS_DEFAULT_REGION": launch.region,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "AWS_SECRET_ACCESS_KEY": settings.secret or ACCESS_KEY_ID,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        # Keeps SDKs from asking the metadata service for credentials.
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": (
            f"{settings.job_endpoint_url}{HOST_METADATA_PATH}/{launch.record.task_id}"
        ),
    }


def task_metadata(launch: Launch, settings: Settings) -> dict[str, str]:
    url = f"{settings.job_endpoint_url}{TASK_METADATA_PATH}/{launch.record.task_id}"
    return {"ECS_CONTAINER_METADATA_URI_V4": url}


def inherited() -> dict[str, str]:
    """Return basic variables for jobs without an image, mostly copied from the server's own."""
    found = {name: os.environ[name] for name in FROM_THE_SERVER if name in os.environ}
    return {**found, "PYTHONUNBUFFERED": "1"}


def batch(job: Job) -> dict[str, str]:
    variables = variables_of(job, len(job.attempts), job.attempts[-1].compute_environment)
    if job.index is not None:
        variables["AWS_BATCH_JOB_ARRAY_INDEX"] = str(job.index)
        variables["AWS_BATCH_JOB_ARRAY_SIZE"] = str(job.submission.array_size)
    return variables


def multi_node(job: Job, node: int, main_node_address: str | None) -> dict[str, str]:
    """Return a multi-node job's variables; child nodes also get the main node's address."""
    main_node = job.submission.main_node
    if main_node is None:
        return {}
    variables = {
        "AWS_BATCH_JOB_ID": f"{job.id}#{node}",
        "AWS_BATCH_JOB_NODE_INDEX": str(node),
        "AWS_BATCH_JOB_NUM_NODES": str(len(job.submission.containers)),
        "AWS_BATCH_JOB_MAIN_NODE_INDEX": str(main_node),
    }
    if main_node_address is not None:
        variables["AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"] = main_node_address
    return variables


def gpus(gpu_ids: Sequence[str]) -> dict[str, str]:
    """Return a variable with the ids of the assigned GPUs (real or declared), or an empty dict."""
    return {"NVIDIA_VISIBLE_DEVICES": ",".join(gpu_ids)} if gpu_ids else {}


def cuda(gpu_ids: Sequence[str], *, sees_all: bool) -> dict[str, str]:
    """Return a variable limiting CUDA to these GPUs: to none if none is requested, as on AWS.

    Return an empty dict if not all of them exist, because an id without a GPU could hide the GPUs
    that do, and if none is requested but all are seen.
    """
    if sees_all or not all(Path(f"/dev/nvidia{gpu_id}").exists() for gpu_id in gpu_ids):
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpu_ids)}
