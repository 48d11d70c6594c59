"""Whose turn it is, where jobs share an instance and so come one after the other.

A job's turn comes when the Airflow task of the job before it is over: only then has it, its
attempts and an On-Demand job in its place ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OVER = ("success", "failed", "skipped", "upstream_failed", "removed")
EVERY_SECONDS = 10.0


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
