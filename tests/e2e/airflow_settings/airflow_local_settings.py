"""The laptop's settings, and retries that come at once."""

import runpy
from datetime import timedelta
from pathlib import Path

runpy.run_path(str(Path(__file__).parents[3] / "laptop/airflow_settings/airflow_local_settings.py"))


def task_policy(task):
    task.retry_delay = timedelta(seconds=1)
