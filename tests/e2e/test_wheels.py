"""The wheels in an environment that has nothing but what they ask for: Airflow is not among it."""

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import distribution

import pytest
from packaging.requirements import Requirement

from tests.documented import BESIDE_PYTHON, the_command, typed
from tests.e2e.naps import CODE
from tests.paths import ROOT
from tests.workflow import Workflow

PLUGINS, JOB = ROOT / "plugins", ROOT / "job_container"
TINY = "--suite own --device cpu --threads 1 --max-seconds 1 --no-ceilings"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """`make wheels`, in a copy."""
    copy = tmp_path_factory.mktemp("checkout")
    for folder in ("plugins", "job_container"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("*.pyc"))
    for file in ("Makefile", "LICENSE"):
        shutil.copy(ROOT / file, copy)
    (copy / "build").mkdir()
    (copy / ".venv").symlink_to(sys.prefix)
    typed(f"{the_command('make wheels')} --assume-old install", copy, os.environ)
    return copy / "build" / "wheels"


@pytest.fixture(scope="module")
def environment(wheels, tmp_path_factory):
    """Without the package index: what they ask for, and that asks for, is linked from this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    link(site, [line for wheel in wheels.iterdir() for line in asked_for(wheel)])
    install = the_command("pip install build/wheels/*.whl").removeprefix("pip")
    pip = f"{BESIDE_PYTHON}/pip --isolated --quiet --python {folder}/bin/python"
    typed(f"{pip} {install} --no-index", wheels.parents[1], os.environ)
    return folder


def asked_for(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return re.findall(r"^Requires-Dist: (.+)$", archive.read(name).decode(), re.MULTILINE)


def link(site, lines, extras=("run",)):
    for wanted in map(Requirement, lines):
        applies = [not wanted.marker or wanted.marker.evaluate({"extra": one}) for one in extras]
        if wanted.name == "batchmark-job" or not any(applies):
            continue
        found = distribution(wanted.name)
        tops = {file.parts[0] for file in found.files} - {"..", "__pycache__"}
        new = [top for top in tops if not (site / top).exists()]
        for top in new:
            (site / top).symlink_to(found.locate_file(top))
        if new:
            link(site, found.requires or (), extras=("", *wanted.extras))


def test_they_hold_all_files_but_those_that_need_airflow(wheels):
    held = {name for wheel in wheels.iterdir() for name in zipfile.ZipFile(wheel).namelist()}
    files = {
        str(path.relative_to(folder))
        for folder, package in ((PLUGINS, "batchmark"), (JOB, "batchmark_job"))
        for path in (folder / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    left = {name for name in files if name.startswith("batchmark/orchestration/")}
    assert left
    beside = {"own_workloads/softmax.py", "own_workloads/README.md"}
    assert {name for name in held if ".dist-info/" not in name} == files - left | beside


def test_the_lines_of_the_readme_and_the_action_run_without_airflow(environment, tmp_path):
    user = {"HOME": str(tmp_path), "BATCHMARK_WORKLOADS": "benchmarks"}

    def run(command, code=0):
        done = subprocess.run(
            command.replace(".venv/bin/", f"{environment}/bin/").split(),
            cwd=tmp_path,
            env={**user, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "nap.py").write_text(CODE.format(seconds=0.005))
    assert "No module named airflow" in run(".venv/bin/python -m airflow", code=1)
    assert "workload nap: " in run(the_command(".venv/bin/batchmark-job list"))
    assert "def set_up" in run(".venv/bin/batchmark-job template")
    run(f".venv/bin/batchmark-job run {TINY} --output old/")
    workflow = Workflow(tmp_path)
    workflow.installed = environment
    outcome = workflow.pull_request(run=TINY, workloads="benchmarks", repeats="1", baseline="./old")
    assert outcome.code == 0, outcome.log
    assert "1 row compared" in workflow.comments[0]
    (tmp_path / "new").symlink_to(tmp_path / "1" / outcome.artifact)
    assert "1 row compared" in run(the_command(".venv/bin/batchmark compare"))
