"""Names of runs, and of Batch jobs so that a task finds those it submitted (decision 10)."""

from __future__ import annotations

import re
from hashlib import sha256

GENERATION_TAG = "batchmark:generation"
INSTALLATION_TAG = "batchmark:installation"  # Airflow's policy lets it stop what has this
RUN_TAG = "batchmark:run"
DAG_TAG = "batchmark:dag"  # with the parameter run_id, the leak guard knows whose job it is
LONGEST_NAME = 128
DIGEST_CHARACTERS = 10
# For the digest, the generation and the separators.
RESERVED_CHARACTERS = DIGEST_CHARACTERS + 12


def slug(run_id: str) -> str:
    """A run id for S3 keys: Airflow's ids contain '+' and ':', which URLs would escape."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", run_id).strip("-")


def names_of_task(job_name: str, run_id: str) -> str:
    """The common prefix of the names of all jobs that a task submits in a run.

    `job_name` identifies the task's job within the run.
    """
    digest = sha256(f"{run_id}\n{job_name}".encode()).hexdigest()[:DIGEST_CHARACTERS]
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", job_name)[: LONGEST_NAME - RESERVED_CHARACTERS]
    return f"{readable}-{digest}-g"


def full_name(job_name: str, run_id: str, number: int) -> str:
    """The name of a task's job: the same for retries, another after the task was cleared."""
    return f"{names_of_task(job_name, run_id)}{number}"


def generation_of(full: str) -> int:
    """The generation in a full name; -1 if the name is not one of ours."""
    ending = full.rpartition("-g")[2]
    return int(ending) if ending.isdigit() else -1
