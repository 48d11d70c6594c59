"""What stops `make demo` and `make up` before anything is started: one clear line each."""

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from batchmark.core.suites import SUITES
from laptop.processes import Processes, stop_all
from tests.clouds import DEADLINE_SECONDS

ROOT = Path(__file__).resolve().parents[2]


def laptop(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "laptop", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/plugins:{ROOT}/job_container"}
        | environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def refused(result, text):
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert text in result.stderr


def test_an_unknown_suite_is_refused(tmp_path):
    refused(
        laptop("demo", "--suite", "smokey", "--folder", str(tmp_path / "demo")),
        f"unknown suite 'smokey'; known: {', '.join(SUITES)}",
    )
    assert list(tmp_path.iterdir()) == []


def test_a_second_demo_at_the_same_time_is_refused(tmp_path):
    with (tmp_path / "demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = laptop("demo", "--folder", str(tmp_path / "demo"))
    refused(result, "another `make demo` is at work")
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (None, "terraform is not on the PATH"),
        ("1.5.7", "is Terraform 1.5.7: install 1.11 or newer"),
    ],
)
def test_terraform_missing_or_too_old_is_refused(tmp_path, version, message):
    tools = tmp_path / "bin"
    tools.mkdir()
    if version:
        answer = f'{{"terraform_version": "{version}", "platform": "linux_amd64"}}'
        fake = tools / "terraform"
        fake.write_text(f"#!{shutil.which('sh')}\necho '{answer}'\n")
        fake.chmod(0o755)
    result = laptop("demo", "--folder", str(tmp_path / "demo"), PATH=str(tools))
    refused(result, message)
    assert not (tmp_path / "demo").exists()


def test_a_taken_port_is_refused(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = laptop("up", "--port", str(port), "--folder", str(tmp_path / "up"))
    refused(result, f"port {port} for Airflow is already taken")


@pytest.fixture
def running(tmp_path):
    """The folder of a stack of which a process runs."""
    processes = Processes(tmp_path / "up", os.environ)
    processes.start("sleeper", [sys.executable, "-c", "import time; time.sleep(600)"], cwd=tmp_path)
    yield processes.folder
    stop_all(processes.folder, seconds=0)
    processes.stop()


def test_what_is_up_already_is_no_error(running):
    login = {
        "Airflow": "http://127.0.0.1:8080",
        "user": "admin",
        "password": "secret",
        "bucket": "results",
    }
    (running / "login.json").write_text(json.dumps(login))
    result = laptop("up", "--folder", str(running))
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(
        "already up\nAirflow: http://127.0.0.1:8080, user admin, password secret\n"
    )
    assert "history show --bucket results)\n`make down` stops it" in result.stdout


def test_a_start_that_broke_off_is_refused(running):
    refused(laptop("up", "--folder", str(running)), "an earlier start broke off; see ")
