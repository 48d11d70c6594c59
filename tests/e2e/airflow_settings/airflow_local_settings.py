"""The laptop's settings, retries that come at once, and runs that overlap."""

import runpy
from datetime import timedelta
from pathlib import Path

import tests.preloaded  # noqa: F401

runpy.run_path(str(Path(__file__).parents[3] / "laptop/airflow_settings/airflow_local_settings.py"))

OVERLAPPING = ("gpu_cpu_benchmark", "own_job_benchmark", "job_comparison")


def task_policy(task):
    task.retry_delay = timedelta(seconds=1)


def dag_policy(dag):
    """Runs overlap here, where nothing depends on their times."""
    if dag.dag_id in OVERLAPPING:
        dag.max_active_runs = 4
