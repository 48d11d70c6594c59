"""Fills Airflow's own database with the sample's runs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from airflow import settings
from airflow.models import DagModel, DagRun, import_all_models
from airflow.models.base import Base
from airflow.models.dagbundle import DagBundleModel

BUNDLE = "sample"


class Scheduled(NamedTuple):
    dag_id: str
    cron: str


class FinishedRun(NamedTuple):
    dag_id: str
    run_id: str
    at: datetime


def fill(schedules: Iterable[Scheduled], runs: Iterable[FinishedRun]) -> None:
    """Create and fill the database that Airflow is configured to use; it must not exist yet."""
    import_all_models()
    Base.metadata.create_all(settings.engine)
    dags = [
        {
            "dag_id": one.dag_id,
            "timetable_summary": one.cron,
            "is_paused": False,
            "bundle_name": BUNDLE,
            "max_active_tasks": 1,
            "max_consecutive_failed_dag_runs": 0,
            "has_task_concurrency_limits": False,
        }
        for one in schedules
    ]
    ran = [
        {
            "dag_id": one.dag_id,
            "run_id": one.run_id,
            "run_type": "scheduled",
            "run_after": one.at,
            "state": "success",
        }
        for one in runs
    ]
    assert settings.engine is not None  # noqa: S101 - created when Airflow is imported
    with settings.engine.begin() as connection:
        connection.execute(DagBundleModel.__table__.insert(), [{"name": BUNDLE}])
        connection.execute(DagModel.__table__.insert(), dags)
        connection.execute(DagRun.__table__.insert(), ran)
