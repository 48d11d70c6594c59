"""What the commands do by default, and what a long installation says."""

import os
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest

from laptop import __main__ as program
from laptop import install, up
from laptop.airflow import Airflow
from laptop.stack import ROOT


def test_up_takes_airflows_usual_port(monkeypatch):
    called = []
    monkeypatch.setattr(sys, "argv", ["laptop", "up"])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(up, "up", lambda *arguments: called.append(arguments))
    assert program.main() == 0
    assert called == [(8080, program.BUILD / "up")]


def test_down_keeps_runs_and_says_how_to_delete_them(tmp_path, capsys):
    folder = tmp_path / "up"
    up.down(folder)
    assert capsys.readouterr().out == "nothing was running\n"
    (folder / up.KEPT).mkdir(parents=True)
    up.down(folder)
    assert f"kept in {folder}: `make down STATE=delete`" in capsys.readouterr().out
    assert folder.exists()
    up.down(folder, delete_state=True)
    assert f"deleted {folder}" in capsys.readouterr().out
    assert not folder.exists()


def test_the_local_cloud_keeps_its_port_where_it_is_free(tmp_path):
    port = up._cloud_port(tmp_path)
    assert up._cloud_port(tmp_path) == port
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        assert up._cloud_port(tmp_path) != port


INTERRUPTED_IN_A_STRING = """
import signal, sys
from laptop import __main__ as program
program._run_processes = lambda _: exec("signal.raise_signal(signal.SIGINT)")
sys.argv = ["laptop", "demo"]
sys.exit(program.main())
"""


def test_an_interrupt_while_a_string_is_evaluated_ends_as_any_other(tmp_path):
    (tmp_path / "interrupted.py").write_text(INTERRUPTED_IN_A_STRING)
    ended = subprocess.run(
        [sys.executable, "-m", "interrupted"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (program.INTERRUPTED, "demo: interrupted\n")


def test_a_long_installation_says_that_it_goes_on_and_how_it_ended(monkeypatch, capsys):
    monkeypatch.setattr(install, "PROGRESS_SECONDS", 0.05)
    slow = "import time; time.sleep(0.2); raise SystemExit(3)"
    assert install.follow([sys.executable, "-c", slow]) == 3
    assert capsys.readouterr().out.startswith("install: still running after 0 s\n")


@pytest.mark.parametrize("times", [1, 2])
def test_airflows_database_is_made_in_a_new_folder_and_in_a_known_one(tmp_path, times):
    ran = []
    processes = SimpleNamespace(run=lambda name, *_, cwd: ran.append((name, cwd)))
    airflow = Airflow(tmp_path / "stack" / "airflow", 8080, tmp_path, schedules=False)
    for _ in range(times):
        airflow.migrate(processes, tmp_path)
    assert ran[-1] == ("airflow-migrate", tmp_path)
    assert airflow.home.stat().st_mode & 0o777 == 0o700
    for name in ("passwords.json", "airflow.db"):
        assert (airflow.home / name).stat().st_mode & 0o777 == 0o600
