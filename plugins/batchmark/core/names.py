"""Names of runs, and those by which a task finds the Batch jobs it submitted (decision 10)."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context

GENERATION_TAG = "batchmark:generation"
INSTALLATION_TAG = "batchmark:installation"  # what Airflow's policy lets it stop
RUN_TAG = "batchmark:run"
DAG_TAG = "batchmark:dag"  # with the parameter run_id it tells the leak guard whose job it is
LONGEST_NAME = 128
DIGEST_CHARACTERS = 10
# For the digest, the generation and what stands between.
RESERVED_CHARACTERS = DIGEST_CHARACTERS + 12


def slug(run_id: str) -> str:
    """A run id as part of an S3 key: Airflow's ids hold '+' and ':', which URLs would escape."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", run_id).strip("-")


def generation(context: Context) -> int:
    """How often a task was cleared: Airflow raises max_tries then, and only then."""
    return context["ti"].max_tries - (context["task"].retries or 0)


def names_of_task(job_name: str, run_id: str) -> str:
    """What the names of all jobs begin with that a task submits in a run.

    Args:
        job_name: says which of the run's jobs it is.
    """
    digest = sha256(f"{run_id}\n{job_name}".encode()).hexdigest()[:DIGEST_CHARACTERS]
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", job_name)[: LONGEST_NAME - RESERVED_CHARACTERS]
    return f"{readable}-{digest}-g"


def full_name(job_name: str, run_id: str, number: int) -> str:
    """The name of a task's job of one generation; retries share it, a cleared task has another."""
    return f"{names_of_task(job_name, run_id)}{number}"


def generation_of(full: str) -> int:
    """The generation in a full name; -1 where it is none of ours."""
    ending = full.rpartition("-g")[2]
    return int(ending) if ending.isdigit() else -1
