"""The environment variables a job's process gets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from local_cloud.batch.job import Job

# What a container would bring in its image; nothing else of the server's environment gets in.
FROM_THE_SERVER = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH")
# Stands for the job's role: it tells a job's calls from everybody else's.
ACCESS_KEY_ID = "job"


def for_node(
    job: Job, node: int, gpu_ids: Sequence[str], region: str, endpoint_url: str
) -> dict[str, str]:
    """Everything for one node of the job's current attempt; Batch's own variables win."""
    return {
        **machine(region, endpoint_url),
        **job.submission.containers[node].environment,
        **batch(job),
        **multi_node(job, node),
        **gpus(gpu_ids),
    }


def machine(region: str, endpoint_url: str) -> dict[str, str]:
    """The base: the server's basics, and AWS settings that lead to the local cloud only."""
    inherited = {name: os.environ[name] for name in FROM_THE_SERVER if name in os.environ}
    return {
        **inherited,
        "PYTHONUNBUFFERED": "1",
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "AWS_SECRET_ACCESS_KEY": ACCESS_KEY_ID,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def batch(job: Job) -> dict[str, str]:
    """The variables every Batch job gets, and those of an array job's child."""
    record = job.attempts[-1]
    variables = {
        "AWS_BATCH_JOB_ID": job.id,
        "AWS_BATCH_JOB_ATTEMPT": str(len(job.attempts)),
        "AWS_BATCH_JQ_NAME": job.submission.queue.name,
        "AWS_BATCH_CE_NAME": record.compute_environment,
    }
    if job.index is not None:
        variables["AWS_BATCH_JOB_ARRAY_INDEX"] = str(job.index)
        variables["AWS_BATCH_JOB_ARRAY_SIZE"] = str(job.submission.array_size)
    return variables


def multi_node(job: Job, node: int) -> dict[str, str]:
    """The variables of a multi-node job; a child node also learns where the main node is."""
    main_node = job.submission.main_node
    if main_node is None:
        return {}
    variables = {
        "AWS_BATCH_JOB_ID": f"{job.id}#{node}",
        "AWS_BATCH_JOB_NODE_INDEX": str(node),
        "AWS_BATCH_JOB_NUM_NODES": str(len(job.submission.containers)),
        "AWS_BATCH_JOB_MAIN_NODE_INDEX": str(main_node),
    }
    if node != main_node:
        variables["AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"] = "127.0.0.1"
    return variables


def gpus(gpu_ids: Sequence[str]) -> dict[str, str]:
    """The GPUs assigned; CUDA is told of them only where their devices really exist."""
    if not gpu_ids:
        return {}
    ids = ",".join(gpu_ids)
    variables = {"NVIDIA_VISIBLE_DEVICES": ids}
    if all(Path(f"/dev/nvidia{gpu_id}").exists() for gpu_id in gpu_ids):
        variables["CUDA_VISIBLE_DEVICES"] = ids
    return variables
