"""Ctrl-C, at any moment of `make demo` or `make demo-sharing`, leaves no process behind."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from laptop.processes import processes_of, stop_all
from tests.paths import ROOT
from tests.waiting import PATIENCE_SECONDS


@pytest.mark.parametrize(
    ("command", "moment", "number"),
    [
        ("demo", "everything runs on this machine", signal.SIGINT),
        ("demo", "Terraform: applying", signal.SIGTERM),  # the sample's pages are being made
        # A job is measuring; `demo` would do the same, after 18 s of work for the sample.
        ("demo-sharing", " rows measured", signal.SIGINT),
    ],
)
def test_an_interrupt_ends_everything(tmp_path, command, moment, number):
    folder = tmp_path / "demo"
    with subprocess.Popen(
        [sys.executable, "-m", "laptop", command, "--folder", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/plugins:{ROOT}/job_container"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        try:
            assert any(moment in line for line in demo.stdout), demo.stderr.read()
            demo.send_signal(number)
            _, errors = demo.communicate(timeout=PATIENCE_SECONDS)
            assert demo.returncode == 130
            assert errors == f"{command}: interrupted\n"
            assert processes_of(folder) == []
            assert jobs_of(folder) == []
        finally:
            demo.kill()
            stop_all(folder)


def jobs_of(folder):
    """The local cloud gives its jobs an environment of their own, so look for their addresses."""
    log = folder / "logs" / "local-cloud.log"
    if not log.exists():
        return []
    address = next((word for word in log.read_text().split() if word.startswith("http://")), None)
    if address is None:
        return []
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("AWS_ENDPOINT_URL") == address:
                found.append(process)
        except psutil.Error:
            continue
    return found
