"""The engine that the other tests run on, and what is left of it."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.containers.conftest import FOLDER, ROOT
from tests.containers.debian import Packages, Unavailable
from tests.containers.stand_ins import LABEL, RECIPES, archive
from tests.containers.traces import CGROUPS, end_cgroup, favour_cgroup, groups


@pytest.mark.parametrize(
    "words", [("version",), ("buildx", "version"), ("compose", "version"), ("compose", "ls")]
)
def test_programs_that_tests_start_find_the_engine(engine, words):
    subprocess.run(["docker", *words], check=True, capture_output=True)


def test_containers_reach_package_registries(engine, base_images):
    command = ["pip", "download", "--quiet", "--no-deps", "--dest", "/tmp", "six==1.17.0"]
    engine.containers.run(base_images.python, command, remove=True)


def test_a_stand_in_is_known_by_its_label(engine, base_images):
    for image in (base_images.python, base_images.postgres):
        labelled = LABEL in (engine.images.get(image).labels or {})
        assert labelled == base_images.stand_ins


def test_a_killed_run_is_cleaned_up_by_the_next(running_engine, tmp_path, say):
    """In namespaces of its own: an engine that is the only one there, and killed like this one."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can give a process a network of its own")
    try:
        packages = running_engine.packages or Packages(FOLDER / "packages", say)
        packages.fetch()
    except Unavailable as reason:
        pytest.skip(str(reason))
    root = archive(packages, RECIPES["PYTHON_IMAGE"], FOLDER, say)
    # Links would not do: mount points are told by their real paths.
    shutil.copytree(packages.folder, tmp_path / "engine" / "packages", symlinks=True)

    namespaces = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    folders = (str(tmp_path / "engine"), str(root))
    script = [sys.executable, "-m", "tests.containers.killed_run", *folders]
    ran = subprocess.run(
        ["unshare", *namespaces, *script],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "  + dockerd\n" in ran.stdout.partition("left by the killed run")[2], ran.stdout
    assert ran.stdout.endswith("left in the end: 0 more, 0 fewer\n"), ran.stdout


@pytest.mark.skipif(not os.access(CGROUPS, os.W_OK), reason="control groups are read only here")
def test_all_containers_together_get_the_time_of_two_sessions():
    name = f"batchmark-{os.urandom(3).hex()}"
    try:
        favour_cgroup(name)
        given = {
            file.name: int(file.read_text())
            for group in groups(name)
            for file in (group / "cpu.shares", group / "cpu.weight")
            if file.exists()
        }
    finally:
        end_cgroup(name)
    assert given in ({"cpu.shares": 2 * 1024}, {"cpu.weight": 2 * 100})
    assert groups(name) == []
