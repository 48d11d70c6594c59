"""The MPS daemon of a job is gone afterwards, however the job ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from batchmark_job.errors import CannotMeasureError
from batchmark_job.machine import host, mps
from tests.waiting import wait_for


def processes_of(pipes):
    return [int((Path(pipes) / name).read_text()) for name in ("control", "server")]


def left(pids, pipes):
    return [pid for pid in pids if psutil.pid_exists(pid)], Path(pipes).parent.exists()


def test_daemon_and_server_run_meanwhile_and_are_gone_after_an_error(control):
    seen = []

    def fail():
        with mps.daemon(None) as pipes:
            seen.extend([processes_of(pipes), pipes])
            assert all(map(psutil.pid_exists, seen[0]))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert left(*seen) == ([], False)


def test_one_that_does_not_quit_is_killed_and_its_log_is_not_the_job_s(control, capfd):
    control("stubborn")
    with mps.daemon(None) as pipes:
        pids = processes_of(pipes)
    assert left(pids, pipes) == ([], False)
    assert "".join(capfd.readouterr()) == ""


def test_they_are_gone_when_the_job_is_killed(control):
    code = (
        "from batchmark_job.machine import host, mps\n"
        "with mps.daemon(None) as pipes:\n    print(pipes, flush=True)\n    input()\n"
    )
    job = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(host.PACKAGES)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with job:
        pids = processes_of(job.stdout.readline().strip())
        job.send_signal(signal.SIGKILL)
    wait_for(lambda: not any(map(psutil.pid_exists, pids)), "the end of daemon and server")


@pytest.mark.parametrize(
    ("name", "seconds", "message"),
    [
        ("exits", 60.0, "exited with 3: there is a daemon already"),
        ("mute", 0.5, "did not respond within 0.5 s"),
    ],
)
def test_one_that_does_not_start_says_why_and_leaves_nothing(
    control, monkeypatch, tmp_path, name, seconds, message
):
    control(name)
    monkeypatch.setattr(mps, "READY_SECONDS", seconds)
    with pytest.raises(CannotMeasureError, match=message), mps.daemon(None):
        pass
    commands = [" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])]
    assert [command for command in commands if str(tmp_path) in command] == []


def test_without_the_binary_the_fix_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(CannotMeasureError, match=r"not on the PATH.*NVIDIA_DRIVER_CAPABILITIES"):
        mps.daemon(None).__enter__()


def test_a_clients_limits_are_in_its_environment():
    assert mps.client_environment("/pipes", 25, 3 * 2**30) == {
        "CUDA_MPS_PIPE_DIRECTORY": "/pipes",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=3072M",
    }
    assert mps.client_environment(None, None, None) == {}
