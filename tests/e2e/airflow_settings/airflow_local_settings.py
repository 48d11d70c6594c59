"""The laptop's settings, retries that come at once, and runs that overlap."""

import runpy
from datetime import timedelta
from pathlib import Path

runpy.run_path(str(Path(__file__).parents[3] / "laptop/airflow_settings/airflow_local_settings.py"))


def task_policy(task):
    task.retry_delay = timedelta(seconds=1)


def dag_policy(dag):
    """Runs of own jobs overlap here, where nothing depends on their times."""
    if dag.dag_id == "own_job_benchmark":
        dag.max_active_runs = 2
