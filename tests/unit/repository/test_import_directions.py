"""What the import contracts of pyproject.toml can't say: dags/ is no package."""

import ast

import pytest

from tests.paths import ROOT

FORBIDDEN = {"torch", "numpy", "boto3", "moto", "batchmark_job", "local_cloud", "laptop"}
DAGS = sorted((ROOT / "dags").glob("*.py"))


def imported(path):
    """The top-level packages that a file imports, wherever the import stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("dag", DAGS, ids=lambda path: path.stem)
def test_a_dag_imports_nothing_heavy_and_nothing_of_the_local_cloud(dag):
    assert "airflow" in imported(dag)
    assert not imported(dag) & FORBIDDEN
