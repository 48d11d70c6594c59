"""A kind of run that nobody planned for: five files make it, and everything knows it."""

import os
import re
import shutil
from dataclasses import replace

import pytest

from batchmark.core.formatting import TIMES
from tests.e2e.naps import Naps
from tests.e2e.stacks import told_by
from tests.paths import ROOT

VERDICT = rf"Within 1\.\d+{TIMES}"
MADE_UP = ROOT / "tests" / "made_up_kind"
KINDS = "plugins/batchmark/core/kinds.py"
BEFORE = '        benchmark(COMPARISON_DAG, "Job comparison", "own_jobs"),\n'
RECORD = '        benchmark("steadiness_benchmark", "Steadiness benchmark", "steadiness"),\n'


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    """A copy of the product with the kind's record and its four files."""
    copy = tmp_path_factory.mktemp("product")
    shutil.copytree(ROOT / "plugins", copy / "plugins")
    shutil.copytree(MADE_UP, copy, dirs_exist_ok=True)
    kinds = copy / KINDS
    text = kinds.read_text()
    assert BEFORE in text
    kinds.write_text(text.replace(BEFORE, BEFORE + RECORD))
    return copy


@pytest.fixture(scope="module")
def run(stack, aws, product, tmp_path_factory):
    """What became of a run on the local cloud, and what its log says."""
    home = tmp_path_factory.mktemp("airflow")
    airflow = replace(stack.airflow, home=home, dags=product / "dags")
    imported = [product / "plugins", ROOT / "job_container", ROOT]
    env = airflow.environment(product, stack.aws) | stack.aws
    env |= {
        "PYTHONPATH": os.pathsep.join(map(str, imported)),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
    }
    with Naps(home / "naps", "steady_nap").everywhere(aws):
        return told_by("tests.e2e.made_up_run", home, **env)


def test_it_takes_five_files_and_200_lines():
    files = list(MADE_UP.rglob("*.py"))
    lines = sum(len(path.read_text().splitlines()) for path in files) + RECORD.count("\n")
    assert len(files) + 1 <= 5
    assert lines <= 200


def test_it_is_planned_run_and_reported_on_page_and_terminal(run):
    found, said = run
    assert found["state"] == "success"
    assert found["planned"] == ["steadiness_benchmark", ["c5.2xlarge"] * 2]
    assert found["studies"] == ["steadiness"]
    *_, report = found["pages"]
    for text in (report, said):
        assert "How steady is the target?" in text
        assert re.search(VERDICT, text)
        assert "Steadiness of c5.2xlarge" in text


def test_the_pages_the_guard_and_the_laptop_know_it(run):
    found, _ = run
    of_dag, all_runs, _ = found["pages"]
    for page in (of_dag, all_runs):
        assert "Steadiness benchmark" in page
        assert re.search(VERDICT, page)
    assert found["guarded"]
