"""The laptop's settings, and our code in memory."""

import runpy
from pathlib import Path

import tests.preloaded  # noqa: F401

runpy.run_path(str(Path(__file__).parents[3] / "laptop/airflow_settings/airflow_local_settings.py"))
