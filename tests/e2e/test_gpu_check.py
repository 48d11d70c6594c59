"""The check of a GPU, rehearsed on a simulated one from an export of the tree."""

import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest

from batchmark_job.result.document import parse_document
from benchmarks.gpu_check.summary import MOST_CHARACTERS
from tests.documented import the_command
from tests.paths import ROOT
from tests.stand_ins.cuda import REAL_DEVICE

FOLDERS = ("benchmarks", "job_container", "tests")
OF_MAKE = ("PYTHONPATH", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")  # set where make runs this test
STEPS = ["smoke-cuda", "rivals", "tests", "cpu-threads", "smoke-cpu", "sharing-cuda"]


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """What an export of the tree holds, without .venv."""
    folder = tmp_path_factory.mktemp("export")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Makefile", folder)
    return folder


def gpu_check(export, command, *variables):
    return subprocess.run(
        [*shlex.split(command), "--no-print-directory", f"PYTHON={sys.executable}", *variables],
        cwd=export,
        env={name: value for name, value in os.environ.items() if name not in OF_MAKE},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(REAL_DEVICE, reason="needs a machine without CUDA")
def test_without_a_gpu_it_says_so_in_one_line(export):
    finished = gpu_check(export, the_command("make gpu-check"))
    skipped, of_make = finished.stderr.splitlines()
    assert skipped.startswith("gpu-check: skipped, this torch (")
    assert of_make.endswith("Error 77")


def test_a_rehearsal_leaves_a_folder_and_a_summary_and_is_done_once(export):
    rehearsal = the_command("make gpu-check SIMULATE=T4")
    finished = gpu_check(export, rehearsal, "TO=found")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    found = export / "found"
    summary = (found / "summary.txt").read_text()
    assert summary in finished.stdout
    assert summary.startswith("gpu-check of 1 × simulated Tesla T4, capability 7.5, 15.0 GiB")
    assert len(summary) <= MOST_CHARACTERS
    assert "2 passed" in (found / "tests.log").read_text()
    assert "skipped matmul 256 tf32: simulated Tesla T4 has compute" in summary
    for device in ("cuda", "cpu"):
        document = parse_document((found / f"smoke-{device}.json").read_bytes())
        assert document.actual_device == device
        assert document.environment.gpu_model == "simulated Tesla T4"
        assert {row.status for row in document.measurements} <= {"measured", "unsettled"}
    state = json.loads((found / "state.json").read_text())
    assert [*state["done"]] == STEPS
    assert not [name for name, outcome in state["done"].items() if outcome["late"]]
    again = gpu_check(export, rehearsal, "TO=found")
    assert again.stdout.splitlines()[: len(STEPS)] == [f"{step}: already done" for step in STEPS]
