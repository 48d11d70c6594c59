"""Simulates the sample's whole year and writes its pages."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlencode

from batchmark.core.config import VARIABLE
from batchmark.orchestration.web.library import Library
from sample import database, story
from sample.installation import JOB_DAG, SUITE_DAG, Installation, SampleRun, all_runs, config
from sample.site import Site

CRON = "0 3 * * {}"
DAYS = {SUITE_DAG: 1, JOB_DAG: 2}


def write_year(folder: Path) -> Path:
    """Simulate the year, write its pages into a folder, and return the path of the first one."""
    os.environ[f"AIRFLOW_VAR_{VARIABLE.upper()}"] = config().model_dump_json()
    sample = Installation()
    for due in all_runs():
        sample.measure(due)
    database.fill(
        [database.Scheduled(dag_id, CRON.format(day)) for dag_id, day in DAYS.items()],
        [database.FinishedRun(due.dag_id, due.run_id, due.at) for due in sample.runs],
    )
    library = Library(sample.config)
    return Site(library, comparisons(), sample.drawn).write(folder)


def comparisons() -> dict[str, str]:
    newest, week = story.WEEKS - 1, story.COMMIT_WEEK
    return {
        "the sample's own job before and after a commit": _comparison(
            (SampleRun(JOB_DAG, week), "g5.xlarge"), (SampleRun(JOB_DAG, week - 1), "g5.xlarge")
        ),
        "the sample's own job on a GPU and on a CPU": _comparison(
            (SampleRun(JOB_DAG, newest), "g5.xlarge"), (SampleRun(JOB_DAG, newest), "c7i.2xlarge")
        ),
        "a GPU and a CPU": _comparison(
            (SampleRun(SUITE_DAG, newest), "g5.xlarge"),
            (SampleRun(SUITE_DAG, newest), "c7i.2xlarge"),
        ),
    }


def _comparison(first: tuple[SampleRun, str], second: tuple[SampleRun, str]) -> str:
    sides = {"a": first[0].run_id, "a_target": first[1], "b": second[0].run_id}
    return f"/compare?{urlencode(sides | {'b_target': second[1]})}"
