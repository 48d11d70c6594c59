"""What the import contracts of pyproject.toml can't say: dags/ is no package."""

import pytest

from tests.imports import imported
from tests.paths import ROOT

FORBIDDEN = {"torch", "numpy", "boto3", "moto", "batchmark_job", "local_cloud", "laptop"}
DAGS = sorted((ROOT / "dags").glob("*.py"))


@pytest.mark.parametrize("dag", DAGS, ids=lambda path: path.stem)
def test_a_dag_imports_nothing_heavy_and_nothing_of_the_local_cloud(dag):
    assert "airflow" in imported(dag)
    assert not imported(dag) & FORBIDDEN
