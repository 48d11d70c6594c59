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
def refused(monkeypatch, capsys):
    """Holds that a command is refused with one line, which says this."""

    def run(text, *arguments):
        monkeypatch.setattr(sys, "argv", ["laptop", *map(str, arguments)])
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        assert program.main() == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert text in line

    return run


def test_an_unknown_suite_is_refused(refused, tmp_path):
    known = f"unknown suite 'smokey'; known: {', '.join(SUITES)}"
    refused(known, "demo", "--suite", "smokey", "--folder", tmp_path / "demo")
    assert list(tmp_path.iterdir()) == []


def test_a_second_demo_at_the_same_time_is_refused(refused, tmp_path):
    with (tmp_path / "demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused("another `make demo` is at work", "demo", "--folder", tmp_path / "demo")
    assert not (tmp_path / "demo").exists()


def test_a_missing_terraform_is_refused(refused, tmp_path, monkeypatch):
    """An unsuitable one is refused likewise: test_terraform sees to that."""
    monkeypatch.setenv("PATH", str(tmp_path))
    refused("terraform is not on the PATH", "demo", "--folder", tmp_path / "demo")
    assert not (tmp_path / "demo").exists()


def test_a_taken_port_is_refused(refused, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = f"port {port} for Airflow is already taken"
        refused(told, "up", "--port", port, "--folder", tmp_path / "up")


def test_a_start_that_broke_off_is_refused(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(up, "processes_of", lambda _: ["one"])
    refused("an earlier start broke off; see ", "up", "--folder", tmp_path / "up")
