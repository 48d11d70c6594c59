import pytest
from airflow.dag_processing.dagbag import DagBag

from tests.paths import ROOT


@pytest.fixture(scope="session")
def dag_bag():
    return DagBag(ROOT / "dags")
