import pytest

from tests.paths import ROOT


@pytest.fixture(scope="session")
def dag_bag():
    from airflow.dag_processing.dagbag import DagBag  # takes seconds to import

    return DagBag(ROOT / "dags")
