"""Whose turn it is, where jobs share an instance and so come one after the other.

A job's turn comes when the Airflow task of the job before it is over: only then has it, its
attempts and an On-Demand job in its place ended. Jobs of other runs, and those of tasks that were
cleared, are in the same queue, which belongs to that instance alone: until it is empty, none is
submitted. Batch can't look and submit in one step, so several jobs may be submitted at the same
time: each looks again when ListJobs shows what came before it, and only the oldest stays. For those
seconds, replicas of the others may start beside its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from batchmark.core.errors import BatchmarkError

OVER = ("success", "failed", "skipped", "upstream_failed", "removed")
EVERY_SECONDS = 10.0


class NotSubmittedError(BatchmarkError):
    """A job could not be submitted in time, or at all."""


def task_before_not_over(map_index: int, seconds: float) -> NotSubmittedError:
    return NotSubmittedError(
        f"It was not submitted, as for {seconds:.0f} s the task before it (map index {map_index}) "
        "was not over. End that task, then clear this one"
    )


def instance_never_free(job: Mapping[str, Any], queue: str, seconds: float) -> NotSubmittedError:
    """The error of a job that waited in vain for the end of another."""
    return NotSubmittedError(
        f"It was not submitted, as for {seconds:.0f} s its instance was never free; now job "
        f"{job['jobId']} ({job['jobName']}) is {job['status']} in {queue}. End that job, or clear "
        "this task when no other run uses the target"
    )


def task_before(ti: Any, map_index: int) -> dict[str, Any]:
    """The arguments that ask Airflow for the state of another task of the same mapping."""
    return {
        "dag_id": ti.dag_id,
        "task_ids": [ti.task_id],
        "run_ids": [ti.run_id],
        "map_index": map_index,
    }


def is_over(states: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the task asked for is over; Airflow answers by run and task."""
    found = [state for of_run in states.values() for state in of_run.values()]
    return all(state in OVER for state in found) and bool(found)


def is_behind_others(job_id: str, live: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a job is among its queue's live jobs, and not the oldest of them."""
    return job_id in [job["jobId"] for job in live[1:]]
