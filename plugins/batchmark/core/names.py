"""Names of runs, and of Batch jobs so that a task finds those it submitted (decision 10)."""

from __future__ import annotations

import re
from hashlib import sha256

GENERATION_TAG = "batchmark:generation"
INSTALLATION_TAG = "batchmark:installation"  # Airflow's policy lets it stop what has this
TARGET_TAG = "Target"  # set on instances by their launch template
RUN_TAG = "batchmark:run"
RUN_ID_TAG = "batchmark:run-id"
DAG_TAG = "batchmark:dag"  # with the parameter run_id, the leak guard knows whose job it is
PAGES = "/batchmark"  # where Airflow's API server has our pages (plugins/batchmark_plugin.py)
LONGEST_NAME = 128
LONGEST_RUN_NAME = 200  # a tag's value may have 256 characters
DIGEST_CHARACTERS = 10
# Why a run began, by what Airflow begins its id with.
STARTED = {
    "scheduled": "scheduled",
    "schedule": "scheduled",  # by own_job_schedule
    "manual": "triggered",
    "backfill": "backfill",
    "asset_triggered": "after an asset changed",
}
# For the digest, the generation and the separators.
RESERVED_CHARACTERS = DIGEST_CHARACTERS + 12


def slug(run_id: str) -> str:
    """A run id for S3 keys and tags: Airflow's ids contain '+' and ':', which URLs would escape.

    Where characters are replaced, a digest keeps apart the ids that would look alike.
    """
    readable = url_safe(run_id)
    if readable == run_id and set(run_id) != {"."}:  # as a path, dots alone lead elsewhere
        return run_id
    return f"{readable[:LONGEST_RUN_NAME]}-{_digest(run_id)}".lstrip("-")


def target_order(target: str) -> list[str | float]:
    """The key of the one order of targets, on pages, terminals and charts: numbers by their value.

    An instance type without a number before its size is the smallest of its family.
    """
    return _by_value(r"([0-9]{1,20})", target.replace(".xlarge", ".1xlarge"))


def row_order(row: str) -> list[str | float]:
    """The key of the order of rows by their names, in which sizes are numbers, not text."""
    return _by_value(r"([0-9]{1,20}(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?)", row)


def _by_value(number: str, text: str) -> list[str | float]:
    """The text around numbers, and these, in turn."""
    parts = re.split(number, text)
    return [float(part) if place % 2 else part for place, part in enumerate(parts)]


def run_name(run_id: str, when: str, of: str = "") -> str:
    """A run in words: of what it is, when it ran, and why, as far as its id tells."""
    return ", ".join(filter(None, (of, when, STARTED.get(run_id.partition("__")[0]))))


def limited(text: str, longest: int) -> str:
    """Text of at most so many characters; a digest keeps apart what would look alike."""
    if len(text) <= longest:
        return text
    return f"{text[: longest - DIGEST_CHARACTERS - 1]}-{_digest(text)}"


def url_safe(text: str) -> str:
    """Text for keys and file names; different texts may become the same.

    Up to release 0.1 it made the names of runs: readers find those, too, until 0.3.
    """
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-")


def names_of_task(job_name: str, run_id: str) -> str:
    """The common prefix of the names of all jobs that a task submits in a run.

    `job_name` identifies the task's job within the run.
    """
    digest = _digest(f"{run_id}\n{job_name}")
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", job_name)[: LONGEST_NAME - RESERVED_CHARACTERS]
    return f"{readable}-{digest}-g"


def full_name(job_name: str, run_id: str, number: int) -> str:
    """The name of a task's job: the same for retries, another after the task was cleared."""
    return f"{names_of_task(job_name, run_id)}{number}"


def document_prefix(job_id: str) -> str:
    """How the names of a job's result documents begin (batchmark_job/output.py).

    The id of an array job's child has a ":".
    """
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', job_id)}."


def generation_of(full: str) -> int:
    """The generation in a full name; -1 if the name is not one of ours."""
    ending = full.rpartition("-g")[2]
    return int(ending) if ending.isdigit() else -1


def is_of_task(full: str, prefix: str) -> bool:
    """Whether a full name is that of a task's job, in any generation, and not only begins so.

    `prefix` is what names_of_task returns.
    """
    return full == f"{prefix}{generation_of(full)}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]
