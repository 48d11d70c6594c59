"""Our DAG runs in Airflow's database: their states, times, schedules and failures."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from airflow.models import DagModel, DagRun, TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import and_, select

from batchmark.orchestration.schedules import runs_next_month
from batchmark.orchestration.xcom import FAILURE_XCOM

MOST_RUNS = 10_000  # judgment: bounds a page's query; 27 years of one daily DAG


class AirflowRun(NamedTuple):
    dag_id: str
    run_id: str
    at: datetime
    state: str


class Schedule(NamedTuple):
    """A DAG's number of runs due next month (None without a cron schedule), and its pause state."""

    runs: int | None
    paused: bool


def runs(dag_ids: Iterable[str], run_id: str | None = None) -> list[AirflowRun]:
    """Return the given DAGs' runs, newest first; if `run_id` is given, only those with this id."""
    wanted = (
        select(DagRun.dag_id, DagRun.run_id, DagRun.run_after, DagRun.state)
        .where(DagRun.dag_id.in_(list(dag_ids)))
        .order_by(DagRun.run_after.desc())
        .limit(MOST_RUNS)
    )
    if run_id is not None:
        wanted = wanted.where(DagRun.run_id == run_id)
    with create_session() as session:
        return [
            AirflowRun(dag_id, run_id, at, str(getattr(state, "value", state)))
            for dag_id, run_id, at, state in session.execute(wanted)
        ]


def failures(dag_id: str, run_id: str) -> list[tuple[str, str | None]]:
    """Return a run's failed tasks in the order they ended, with reasons where known."""
    told = and_(
        XComModel.dag_id == TaskInstance.dag_id,
        XComModel.run_id == TaskInstance.run_id,
        XComModel.task_id == TaskInstance.task_id,
        XComModel.map_index == TaskInstance.map_index,
        XComModel.key == FAILURE_XCOM,
    )
    wanted = (
        select(TaskInstance.task_id, XComModel.value)
        .outerjoin(XComModel, told)
        .where(
            TaskInstance.dag_id == dag_id,
            TaskInstance.run_id == run_id,
            TaskInstance.state == "failed",
        )
        .order_by(TaskInstance.end_date)
    )
    with create_session() as session:
        return [(task, reason and str(reason)) for task, reason in session.execute(wanted)]


def schedule(dag_id: str, now: datetime) -> Schedule:
    """Return a DAG's schedule for the calendar month after `now`, in UTC."""
    with create_session() as session:
        found = session.get(DagModel, dag_id)
        text, paused = (found.timetable_summary, bool(found.is_paused)) if found else (None, True)
    return Schedule(runs_next_month(text, now), paused)
