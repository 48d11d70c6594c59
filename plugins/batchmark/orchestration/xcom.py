"""XCom keys, and access to the states of a run's other tasks."""

from __future__ import annotations

from airflow.sdk import Context

JOB_ID_XCOM = "job_id"
JOB_IDS_XCOM = "job_ids"
FAILURE_XCOM = "failure"  # why a task failed
OWN_ERROR_XCOM = "own_error"  # how a user's own job ended that would end so again
NOT_RUN_XCOM = "not_run"  # why a job was not run
TIMING_XCOM = "timing"
PODS_XCOM = "pods"  # when a Kubernetes job ran, and how it ended
RERUN_TASKS = ("rerun_once", "rerun_twice")  # by round
JOB_TASKS = ("run_benchmark", *RERUN_TASKS)


def states_of(context: Context, *task_ids: str) -> set[str | None]:
    """Return the states of the given tasks in this run, including all their mapped instances."""
    ti, run_id = context["ti"], context["run_id"]
    found = ti.get_task_states(dag_id=ti.dag_id, task_ids=list(task_ids), run_ids=[run_id])
    return set(found.get(run_id, {}).values())
