"""What a run of the tests says of its own cost."""

import os
import re
import subprocess
import sys

import psutil

from tests.cost import MARKER, SHARED, Watch
from tests.paths import ROOT

SECONDS = 0.6  # seen at least once by what looks every 0.5 s
BUSY = f"""
import time

end = time.process_time() + {SECONDS}
while time.process_time() < end:
    pass
"""
IN_A_CHILD = f"""
import subprocess, sys

def test(shared):
    subprocess.run([sys.executable, "-c", {BUSY!r}])
"""
ENDS_LAST = f"""
import subprocess, sys
import pytest

@pytest.fixture(scope="session")
def shared():
    yield
    subprocess.run([sys.executable, "-c", {BUSY!r}])
"""
BY_ITSELF = "def test():" + BUSY.replace("\n", "\n    ")


def test_processor_time_is_told_by_file_and_of_children_apart(tmp_path):
    (tmp_path / "conftest.py").write_text(ENDS_LAST)
    (tmp_path / "test_child.py").write_text(IN_A_CHILD)
    (tmp_path / "test_own.py").write_text(BY_ITSELF)
    (tmp_path / "pytest.ini").touch()
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "tests.cost", "--cost", "-n", "1"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    files = {
        name: (float(own), float(children))
        for own, children, name in re.findall(r"([\d.]+) +([\d.]+)  (\w+\.py|\(.+\))", ran.stdout)
    }
    own, children = files["test_own.py"]
    assert own >= SECONDS > children
    own, children = files["test_child.py"]
    assert children >= SECONDS > own
    _, children = files[SHARED]
    assert children >= SECONDS
    programs = ran.stdout.partition("by program")[2]
    assert re.search(r"\d  python[\d.]* +test_child\.py", programs), programs


def test_what_is_just_ending_counts_for_its_program(monkeypatch):
    monkeypatch.setenv(MARKER, str(os.getpid()))
    watch = Watch()
    waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE):
        watch.look()
        monkeypatch.setattr(psutil.Process, "cmdline", lambda _: [])
        watch.look()
    (seen,) = watch._seen.values()
    assert seen.program == os.path.basename(sys.executable)
