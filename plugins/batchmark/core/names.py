"""Names of runs and Batch jobs; a task finds its jobs by name (docs/decisions/0010)."""

from __future__ import annotations

import re
from hashlib import sha256

GENERATION_TAG = "batchmark:generation"
INSTALLATION_TAG = "batchmark:installation"  # Airflow's policy allows it to stop what has this
TARGET_TAG = "Target"  # set on instances by their launch template
RUN_TAG = "batchmark:run"
RUN_ID_TAG = "batchmark:run-id"
DAG_TAG = "batchmark:dag"  # tells the leak guard, with the parameter run_id, whose job it is
PAGES = "/batchmark"  # where Airflow's API server has our pages (plugins/batchmark_plugin.py)
LONGEST_NAME = 128  # of a Batch job
LONGEST_RUN_NAME = 200  # a tag's value may have 256 characters
DIGEST_CHARACTERS = 10  # two of 10,000 names agree in 1 of 20,000 cases; a change renames live jobs
# Why a run began, by the prefix that Airflow gives its id.
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
    """Make a run ID suitable for S3 keys and tags: Airflow's '+' and ':' would be escaped in URLs.

    If characters are replaced, a digest keeps similar IDs distinct.
    """
    readable = url_safe(run_id)
    if readable == run_id and set(run_id) != {"."}:  # "." and ".." would be path segments
        return run_id
    return f"{readable[:LONGEST_RUN_NAME]}-{_digest(run_id)}".lstrip("-")


def target_order(target: str) -> list[str | float]:
    """Return the sort key used everywhere for targets; numbers sort by value.

    Within an instance family, `xlarge` sorts as `1xlarge`.
    """
    return _by_value(r"([0-9]{1,20})", target.replace(".xlarge", ".1xlarge"))


def row_order(row: str) -> list[str | float]:
    """Return the sort key for row names; sizes in them sort as numbers, not as text."""
    return _by_value(r"([0-9]{1,20}(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?)", row)


def _by_value(number: str, text: str) -> list[str | float]:
    """Split text into alternating text and numbers."""
    parts = re.split(number, text)
    return [float(part) if place % 2 else part for place, part in enumerate(parts)]


def run_name(run_id: str, when: str, of: str = "") -> str:
    """Describe a run: its subject, when it ran and, if its ID reveals it, why it started."""
    return ", ".join(filter(None, (of, when, STARTED.get(run_id.partition("__")[0]))))


def told_apart(first: str, second: str) -> tuple[str, str]:
    """Shorten two names, such as "g5.xlarge in run-1", to the parts that differ."""
    ours, theirs = (re.split("( in |, )", name) for name in (first, second))
    while min(len(ours), len(theirs)) > 1 and ours[:2] == theirs[:2]:
        ours, theirs = ours[2:], theirs[2:]
    while min(len(ours), len(theirs)) > 1 and ours[-2:] == theirs[-2:]:
        ours, theirs = ours[:-2], theirs[:-2]
    return "".join(ours), "".join(theirs)


def cut_to_length(text: str, longest: int) -> str:
    """Truncate text to `longest` characters; a digest keeps truncated texts distinct."""
    if len(text) <= longest:
        return text
    return f"{text[: longest - DIGEST_CHARACTERS - 1]}-{_digest(text)}"


def url_safe(text: str) -> str:
    """Replace characters unfit for keys and file names; different texts can end up identical.

    Release 0.1 named run folders this way; readers accept such names until release 0.3.
    """
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-")


def names_of_task(job_name: str, run_id: str) -> str:
    """Return the common name prefix of all jobs that a task submits in a run.

    `job_name` identifies the task's job within the run.
    """
    digest = _digest(f"{run_id}\n{job_name}")
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", job_name)[: LONGEST_NAME - RESERVED_CHARACTERS]
    return f"{readable}-{digest}-g"


def full_name(job_name: str, run_id: str, number: int) -> str:
    """Return a job's full name; `number` is its task's generation or, on Kubernetes, its try."""
    return f"{names_of_task(job_name, run_id)}{number}"


def document_prefix(job_id: str) -> str:
    """Return the name prefix for a job's result documents (batchmark_job/output.py).

    The ":" in an array child's job ID is replaced.
    """
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', job_id)}."


def generation_of(full: str) -> int:
    """Return the generation in a job's full name; -1 if Batchmark did not name the job."""
    ending = full.rpartition("-g")[2]
    return int(ending) if ending.isdigit() else -1


def is_of_task(full: str, prefix: str) -> bool:
    """Whether a full name is exactly `prefix` followed by a generation.

    `prefix` must come from `names_of_task`.
    """
    return full == f"{prefix}{generation_of(full)}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]
