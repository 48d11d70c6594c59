"""What the import contracts of pyproject.toml can't say of DAGs and of rooms."""

from collections import Counter
from pathlib import Path

import pytest

import batchmark_job
from tests.imports import imported
from tests.paths import ROOT

FORBIDDEN = {"torch", "numpy", "boto3", "moto", "batchmark_job", "local_cloud", "laptop", "sample"}
MOST_MODULES = 15
DAGS = sorted((ROOT / "dags").glob("*.py"))


@pytest.mark.parametrize("dag", DAGS, ids=lambda path: path.stem)
def test_a_dag_imports_nothing_heavy_and_nothing_of_the_local_cloud(dag):
    assert "airflow" in imported(dag)
    assert not imported(dag) & FORBIDDEN


@pytest.mark.parametrize("folder", ["plugins", "job_container", "local_cloud", "laptop", "sample"])
def test_no_room_is_crowded(folder):
    modules = (path for path in (ROOT / folder).rglob("*.py") if path.name != "__init__.py")
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in modules)
    crowded = [
        f"{room} has {count} modules, and a room has {MOST_MODULES} at most: move those that "
        "belong together into a room within it, named by what it holds "
        "(docs/decisions/0016-rooms.md)"
        for room, count in counts.items()
        if count > MOST_MODULES
    ]
    assert not crowded, "\n".join(crowded)


PACKAGE = Path(batchmark_job.__file__).parent
README = (PACKAGE.parent / "README.md").read_text()
ROOMS = {path.parent.relative_to(PACKAGE) for path in PACKAGE.glob("*/**/[!_]*.py")}


@pytest.mark.parametrize("room", sorted(f"{room}/" for room in ROOMS))
def test_room_is_named(room):
    table = README.partition("## Where things are")[2]
    assert f"\n| `{room}` |" in table
