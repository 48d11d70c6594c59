"""What stops `make demo` and `make up` before anything is started: one clear line each."""

import fcntl
import signal
import socket
import sys

import pytest

from batchmark.core.suites import SUITES
from laptop import __main__ as program
from laptop import up


@pytest.fixture
def refusal(monkeypatch, capsys):
    """The one line that refuses a command."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["laptop", *map(str, arguments)])
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        assert program.main() == 1
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return run


def test_an_unknown_suite_a_second_demo_and_a_missing_terraform_are_refused(
    refusal, tmp_path, monkeypatch
):
    line = refusal("demo", "--suite", "smokey", "--folder", tmp_path / "demo")
    assert f"unknown suite 'smokey'; known: {', '.join(SUITES)}" in line
    assert list(tmp_path.iterdir()) == []
    with (tmp_path / "demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        line = refusal("demo", "--folder", tmp_path / "demo")
    assert "another `make demo` is running" in line
    # An unsuitable one is refused likewise: test_terraform sees to that.
    monkeypatch.setenv("PATH", str(tmp_path))
    line = refusal("demo", "--folder", tmp_path / "demo")
    assert line == "demo: terraform is not on the PATH: install Terraform 1.11 or newer"
    assert not (tmp_path / "demo").exists()


def test_a_taken_port_and_a_start_that_broke_off_are_refused(refusal, tmp_path, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refusal("up", "--port", port, "--folder", tmp_path / "up")
    assert f"port {port} for Airflow is already in use" in line
    assert line.endswith(f"or choose another: `make up PORT={port + 1}`")
    monkeypatch.setattr(up, "processes_of", lambda _: ["one"])
    line = refusal("up", "--folder", tmp_path / "up")
    assert "an earlier start was interrupted; see " in line
