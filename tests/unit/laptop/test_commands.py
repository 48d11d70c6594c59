"""What the commands do by default, and what a long installation says."""

import signal
import sys
from types import SimpleNamespace

import pytest

from laptop import __main__ as program
from laptop import install, up
from laptop.airflow import Airflow


def test_up_takes_airflows_usual_port(monkeypatch):
    called = []
    monkeypatch.setattr(sys, "argv", ["laptop", "up"])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(up, "up", lambda *arguments: called.append(arguments))
    assert program.main() == 0
    assert called == [(8080, program.BUILD / "up")]


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
    assert (airflow.home / "passwords.json").stat().st_mode & 0o777 == 0o600
