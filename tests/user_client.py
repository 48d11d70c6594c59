"""Airflow's pages, as users have them."""

from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import quote

from laptop.airflow import AirflowClient


class UserClient(AirflowClient):
    """What users see and do in Airflow's pages, by the same API."""

    def instances(self, dag_id: str, run_id: str, task_id: str) -> list[dict[str, Any]]:
        """Those of one task of a run; each mapped one is an entry."""
        return [task for task in self.task_instances(dag_id, run_id) if task["task_id"] == task_id]

    def links(self, task: Mapping[str, Any]) -> dict[str, str | None]:
        return self._of_task(task, "links")["extra_links"]

    def xcom(self, task: Mapping[str, Any], key: str) -> Any:
        return self._of_task(task, f"xcomEntries/{key}")["value"]

    def asset_events(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        asked = f"source_dag_id={dag_id}&source_run_id={quote(run_id)}"
        return self._get(f"/assets/events?{asked}")["asset_events"]

    def newest_run(self, dag_id: str) -> str:
        """The id of a DAG's newest run."""
        (run,) = self._get(f"/dags/{dag_id}/dagRuns?order_by=-run_after&limit=1")["dag_runs"]
        return str(run["dag_run_id"])

    def fail(self, task: Mapping[str, Any]) -> None:
        """Mark a task instance as failed."""
        self.change(
            "PATCH",
            f"/dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}/taskInstances/{task['task_id']}"
            f"/{task['map_index']}",
            {"new_state": "failed"},
        ).raise_for_status()

    def cancel(self, dag_id: str, run_id: str) -> None:
        """Mark a DAG run as failed: what runs is ended, what waits is skipped; teardowns follow."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}"
        self.change("PATCH", path, {"state": "failed"}).raise_for_status()

    def clear(self, dag_id: str, run_id: str) -> None:
        """Clear a DAG run: all its tasks run again."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/clear"
        self.change("POST", path, {"dry_run": False}).raise_for_status()

    def clear_tasks(
        self, dag_id: str, run_id: str, task_ids: Collection[Any], **options: bool
    ) -> None:
        """Let tasks of a DAG run that has ended run again, by their names or with map indexes."""
        asked = {"dry_run": False, "only_failed": False, "dag_run_id": run_id, **options}
        self.change(
            "POST", f"/dags/{dag_id}/clearTaskInstances", {**asked, "task_ids": [*task_ids]}
        ).raise_for_status()
