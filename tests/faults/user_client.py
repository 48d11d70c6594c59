"""Airflow's pages, as users have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laptop.airflow import AirflowClient
from tests.faults.run import COLLAPSE, STAND_UP, Run


class UserClient(AirflowClient):
    """What users do in Airflow's pages, by the same API."""

    def fail(self, task: Mapping[str, Any]) -> None:
        """Mark a task instance as failed."""
        self.change(
            "PATCH",
            f"/dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}/taskInstances/{task['task_id']}"
            f"/{task['map_index']}",
            {"new_state": "failed"},
        ).raise_for_status()

    def cancel(self, run: Run) -> None:
        """Mark a DAG run as failed: what runs is ended, and its teardown follows."""
        self.change(
            "PATCH", f"/dags/{run.dag_id}/dagRuns/{run.run_id}", {"state": "failed"}
        ).raise_for_status()

    def go_on(self, run: Run) -> None:
        """Clear what failed or was skipped, and the tasks of the layer, which that needs."""
        ended = {
            str(task["task_id"])
            for task in self.task_instances(run.dag_id, run.run_id)
            if task["state"] != "success"
        }
        self.change(
            "POST",
            f"/dags/{run.dag_id}/clearTaskInstances",
            {
                "dry_run": False,
                "dag_run_id": run.run_id,
                "task_ids": sorted({*ended, STAND_UP, COLLAPSE}),
                "only_failed": False,
                "reset_dag_runs": True,
            },
        ).raise_for_status()

    def clear(self, run: Run) -> None:
        """Clear a DAG run: all its tasks run again."""
        self.change(
            "POST", f"/dags/{run.dag_id}/dagRuns/{run.run_id}/clear", {"dry_run": False}
        ).raise_for_status()
