"""Real processes, ended by what they inherited and not by whose children they are."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from laptop import sample
from laptop.errors import LaptopError
from laptop.processes import Processes, processes_of, require_port, stop_all
from tests.waiting import wait_for

FORKING = """
import subprocess, sys, time
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
for _ in range(2):
    subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
"""

STARTING = """
import pathlib, subprocess, sys, time
child = [sys.executable, "-c", "import time; time.sleep(3600)"]
subprocess.Popen(child)
while not pathlib.Path("go").exists():
    time.sleep(0.05)
subprocess.Popen(child)
time.sleep(3600)
"""


@pytest.fixture
def processes(tmp_path):
    running = Processes(tmp_path / "stack", os.environ)
    yield running
    stop_all(running.folder, seconds=0)
    running.stop()


def test_orphans_in_sessions_of_their_own_are_ended_too(processes, tmp_path):
    processes.run("forking", [sys.executable, "-c", FORKING], cwd=tmp_path)
    wait_for(lambda: len(processes_of(processes.folder)) == 2, "two processes")
    assert stop_all(processes.folder, seconds=0.5) == 2
    assert processes_of(processes.folder) == []


def test_another_stacks_processes_are_left_alone(processes, tmp_path):
    sleeper = [sys.executable, "-c", "import time; time.sleep(3600)"]
    processes.start("sleeper", sleeper, cwd=tmp_path)
    wait_for(lambda: processes_of(processes.folder), "process")
    assert stop_all(tmp_path / "other") == 0
    assert len(processes_of(processes.folder)) == 1
    processes.stop()
    assert processes_of(processes.folder) == []


def test_a_program_that_ended_is_reported_with_the_end_of_its_log(processes, tmp_path):
    processes.start("broken", [sys.executable, "-c", "print('why'); exit(7)"], cwd=tmp_path)
    with pytest.raises(LaptopError, match=r"(?s)broken exited with code 7.*why"):
        wait_for(processes.check, "end of it")


def test_a_failing_program_stops_the_caller(processes, tmp_path):
    with pytest.raises(LaptopError, match="migrate exited with code 1"):
        processes.run("migrate", [sys.executable, "-c", "exit(1)"], cwd=tmp_path)


def test_a_program_of_lower_priority_passes_it_on(processes, tmp_path):
    """Also to what it starts later, and among sessions that Linux gives equal shares."""
    processes.start("starting", [sys.executable, "-c", STARTING], cwd=tmp_path)
    wait_for(lambda: len(processes_of(processes.folder)) == 2, "a child")
    processes.lower_priority("starting", 10)
    (tmp_path / "go").touch()
    wait_for(lambda: len(processes_of(processes.folder)) == 3, "a later child")
    found = processes_of(processes.folder)
    assert [process.nice() for process in found] == [10] * 3
    for session in (Path(f"/proc/{process.pid}/autogroup") for process in found):
        assert not session.exists() or session.read_text().strip().endswith("nice 10")


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_an_impossible_port_is_refused(port):
    with pytest.raises(LaptopError, match="is not a valid port"):
        require_port(port, "Airflow")


def test_a_process_that_ends_while_it_is_looked_at_does_no_harm(processes, tmp_path, monkeypatch):
    processes.start("sleeper", ["sleep", "3600"], cwd=tmp_path)
    sleeper = wait_for(lambda: processes_of(processes.folder), "process")
    ended = psutil.Popen(["true"])
    ended.wait()
    monkeypatch.setattr(psutil, "process_iter", lambda: [ended, *sleeper])
    with pytest.raises(psutil.NoSuchProcess):
        ended.environ()
    assert processes_of(processes.folder) == sleeper


def test_a_killed_program_takes_its_children_along_and_is_forgotten(processes, tmp_path):
    script = "import subprocess; subprocess.run(['sleep', '600'])"
    processes.start("parent", [sys.executable, "-c", script], cwd=tmp_path)
    wait_for(lambda: len(processes_of(processes.folder)) == 2, "two processes")
    processes.kill("parent")
    wait_for(lambda: not processes_of(processes.folder), "end of them")
    processes.check()


ENV = {"PATH": "/usr/bin:/bin"}


def program(tmp_path, monkeypatch, text):
    """What runs in the sample's place."""
    stand_in = tmp_path / "stand_in"
    stand_in.write_text(f"#!{sys.executable}\n{text}")
    stand_in.chmod(0o755)
    monkeypatch.setattr(sample.sys, "executable", str(stand_in))


def test_its_pages_are_there_when_the_block_is_left(tmp_path, monkeypatch):
    program(tmp_path, monkeypatch, "import sys, time; time.sleep(0.1); open(sys.argv[3], 'w')")
    told = []
    with sample.sample_beside(tmp_path, ENV, told.append):
        assert not (tmp_path / "sample").exists()
        wait_for(lambda: told, "the line that says so", every=0.01)
    assert (tmp_path / "sample").exists()
    assert told == [f"sample pages can be opened: {tmp_path / 'sample' / 'index.html'}"]


def test_its_failure_is_told_with_the_end_of_its_log(tmp_path, monkeypatch):
    program(tmp_path, monkeypatch, "import sys; sys.exit('no such story')")
    with (
        pytest.raises(LaptopError, match=r"could not build the sample pages.*\nno such story"),
        sample.sample_beside(tmp_path, ENV, print),
    ):
        pass


def test_it_ends_with_a_block_that_fails(tmp_path, monkeypatch):
    its_id = tmp_path / "id"
    text = f"import os, time; open({str(its_id)!r}, 'w').write(str(os.getpid())); time.sleep(3600)"
    program(tmp_path, monkeypatch, text)

    def fail():
        wait_for(lambda: its_id.exists() and its_id.read_text(), "its id", 30, every=0.01)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), sample.sample_beside(tmp_path, ENV, print):
        fail()
    with pytest.raises(ProcessLookupError):
        os.kill(int(its_id.read_text()), 0)
