"""Airflow reads its configuration at its first import, so it stands here, before any test's."""

import os
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_home = tempfile.TemporaryDirectory(prefix="batchmark-airflow-")

os.environ.update(
    AIRFLOW_HOME=_home.name,
    AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
    AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins"),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN="sqlite:////nonexistent/no-test-needs-a-database.db",
    AWS_EC2_METADATA_DISABLED="true",
)
