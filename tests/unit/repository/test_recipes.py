"""CONTRIBUTING's recipes: what they name is there, and the one of a workload is carried out."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from batchmark.core.kinds import STUDIES
from tests.paths import ROOT

RECIPES = dict(
    re.findall(
        r"^\| (.+?) \| (.+) \|$",
        (ROOT / "CONTRIBUTING.md").read_text().partition("\n| to change or add |")[2],
        re.MULTILINE,
    )
)
WORKLOADS = "job_container/batchmark_job/workloads"
# A workload like reduction, line by line; each is added where the recipe says.
OF_REDUCTION = {
    f"{WORKLOADS}/builtin.py": (r"(?m)^    reduction,\n", r"(?m)^ +reduction\.Reduction\(\),\n"),
    # The first grid is smoke's.
    "job_container/batchmark_job/suites.py": (r'(?m)^ +Grid\("reduction".*\n',),
    "plugins/batchmark/core/suites.py": (r'(?m)^    "reduction": .*\n',),
    "benchmarks/job/plain_calls.py": (r'(?m)^    "reduction": \((.*\n)+?    \),\n',),
    "tests/unit/job/workloads/test_workloads.py": (r'(?m)^    "reduction": .*\n',),
}
TESTS = (
    "tests/unit/job/workloads/test_workloads.py",
    "tests/unit/job/test_suites.py",
    "tests/unit/repository/test_suites_agree.py",
    "tests/unit/benchmarks/test_cpu_rivals.py",
)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_recipe_names_files_and_what_is_in_them(recipe):
    rooms, names = [ROOT, ROOT / "plugins" / "batchmark"], []
    for name in re.findall(r"`([^` =]+)`", recipe):
        kinds = [re.sub("<.*?>", study, name) for study in (*STUDIES, "pairs")]
        found = [
            path
            for kind in dict.fromkeys(kinds)
            for room in rooms
            for path in (room / kind, room / f"{kind}.py")
            if path.exists()
        ]
        rooms += [path if path.is_dir() else path.parent for path in found]
        rooms += [path.with_suffix("") for path in found if path.suffix == ".py"]
        names += [name] if not found else []
    files = [path for room in rooms[2:] for path in (room.glob("*.py") if room.is_dir() else ())]
    code = "".join(path.read_text() for path in files)
    assert [name for name in names if not re.search(rf"\b{re.escape(name)}\b", code)] == []


def renamed(text):
    return text.replace("reduction", "total").replace("Reduction", "Total")


def test_a_workload_that_is_added_as_the_recipe_says_is_whole(tmp_path):
    for name in ("benchmarks", "job_container", "plugins", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    workload = tmp_path / WORKLOADS / "reduction.py"
    workload.with_name("total.py").write_text(renamed(workload.read_text()))
    for name, lines in OF_REDUCTION.items():
        text = (tmp_path / name).read_text()
        for line in map(re.compile, lines):
            text, added = line.subn(lambda found: found[0] + renamed(found[0]), text, 1)
            assert added, (name, line)
        (tmp_path / name).write_text(text)
    imported = [str(tmp_path / name) for name in ("", "plugins", "job_container")]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rp", *TESTS, "-k", "total or test_suites"],
        cwd=tmp_path,
        env=env | {"PYTHONPATH": os.pathsep.join(imported)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
    for test in ("test_plain_calls_are_correct[total-np.sum]", "[total-numpy-1001-float32]"):
        assert test in ran.stdout
