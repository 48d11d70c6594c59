"""Runs the made-up kind's DAG on a local cloud, in a copy of the product that has it.

Started as a program of its own: Airflow reads its settings at its first import.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.e2e.one_dag import the_dag

DAG_ID = "steadiness_benchmark"
TARGET = "c5.2xlarge"


def main() -> None:
    """Print, as one line of JSON, what became of a run, and who knows of it."""
    run = the_dag(DAG_ID).test(run_conf={"targets": [TARGET], "repeats": 2})
    print(json.dumps({"state": run.state, **known(run.run_id, Path(sys.argv[1]))}))


def known(run_id: str, folder: Path) -> dict[str, Any]:
    from batchmark.aws.result_bucket import PLAN, RunStore
    from batchmark.core.kinds import SUBMITTING
    from batchmark.orchestration.settings import load_config
    from laptop.report_copy import copy_run

    store = RunStore.of(load_config(), run_id)
    plan = json.loads(store.read(store.prefix + PLAN))
    report = copy_run(store, folder)
    return {
        "planned": [plan["dag_id"], [job["target"] for job in plan["jobs"]]],
        "studies": list(report.studies),
        "guarded": DAG_ID in SUBMITTING,
        "pages": pages(f"/dags/{DAG_ID}", f"/runs?dag={DAG_ID}", f"/runs/{run_id}"),
    }


def pages(*paths: str) -> list[str]:
    """What the pages inside Airflow show to somebody who may see everything."""
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi.testclient import TestClient

    from batchmark.orchestration.web import access
    from batchmark.orchestration.web.app import application
    from tests.stand_ins.visitors import AuthManager, User

    access.get_auth_manager = AuthManager
    app = application()
    app.dependency_overrides[get_user] = lambda: User("editor")
    client = TestClient(app, headers={"accept": "text/html"})
    return [client.get(path).raise_for_status().text for path in paths]


if __name__ == "__main__":
    main()
