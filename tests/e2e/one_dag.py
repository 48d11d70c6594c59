"""Runs one DAG in this process, by Airflow's own runner.

Started as a program of its own: Airflow reads its settings at its first import.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import Any


def main() -> None:
    """Print, as one line of JSON, the run's id and its state."""
    dag_id, conf = sys.argv[1:]
    run = the_dag(dag_id).test(run_conf=json.loads(conf))
    print(json.dumps([run.run_id, run.state]))


def the_dag(dag_id: str) -> Any:
    """A DAG of Airflow's folder, and a database for its runs."""
    import botocore.loaders

    # Each client of Airflow's would read botocore's models of AWS's services anew.
    botocore.loaders.create_loader = cache(botocore.loaders.create_loader)
    from airflow.configuration import conf as settings
    from airflow.dag_processing.dagbag import DagBag
    from airflow.utils.db import initdb

    initdb()
    return DagBag(f"{settings.get('core', 'dags_folder')}/{dag_id}.py").dags[dag_id]


if __name__ == "__main__":
    main()
