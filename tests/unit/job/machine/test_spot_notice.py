"""Spot's notice, from a metadata service that answers here."""

import json
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from batchmark_job.machine import spot_notice
from batchmark_job.machine.metadata import IMDS_VARIABLE
from tests.paths import ROOT
from tests.stand_ins.http import serving

NOTICE = json.dumps({"action": "terminate", "time": "2026-11-24T05:02:00Z"})
ADVICE = json.dumps({"noticeTime": "2026-11-24T05:00:00Z"})
ACTION_PATH = "/latest/meta-data/spot/instance-action"
ADVICE_PATH = "/latest/meta-data/events/recommendations/rebalance"
WAIT_SECONDS = 30


class Metadata:
    """Version 2 of the instance metadata service: no token, no answer; 404 where nothing is.

    It fails at first, then gives advice, and notice once it has been asked for one four times.
    """

    def __init__(self):
        self.values = {ADVICE_PATH: ADVICE}
        self.asked = []

    def __call__(self, request):
        if request.command == "PUT":
            self.asked.append("token")
            return (503, b"") if len(self.asked) < 5 else (200, b"token")
        if request.headers.get("X-aws-ec2-metadata-token") != "token":
            return 401, b""
        self.asked.append(request.path)
        if self.asked.count(ACTION_PATH) >= 4:
            self.values[ACTION_PATH] = NOTICE
        value = self.values.get(request.path)
        return (200, value.encode()) if value else (404, b"")


@contextmanager
def metadata():
    """The service, and its variable."""
    made = Metadata()
    with serving(made) as server:
        yield made, {IMDS_VARIABLE: f"http://127.0.0.1:{server.server_port}"}


def test_a_notice_is_heard_once_and_advice_is_said_once_and_ends_nothing(monkeypatch, capfd):
    heard = threading.Event()
    with metadata() as (service, environment):
        monkeypatch.setenv(*environment.popitem())
        spot_notice.watch(heard.set, poll_seconds=0.01)
        assert heard.wait(WAIT_SECONDS)
    assert service.asked[:4] == ["token"] * 4, "a service that fails is asked again"
    assert service.asked.count(ACTION_PATH) == 4
    assert service.asked.count(ADVICE_PATH) == 1
    said = "".join(capfd.readouterr())
    assert said.count(f"Spot is interrupting this host: {NOTICE}") == 1
    assert said.count(f"Spot may interrupt this host soon; the job continues: {ADVICE}") == 1


def test_elsewhere_nothing_is_asked(monkeypatch):
    monkeypatch.delenv(IMDS_VARIABLE, raising=False)
    monkeypatch.setattr("batchmark_job.machine.metadata.on_ec2", lambda _: False)
    before = threading.active_count()
    spot_notice.watch(pytest.fail)
    assert threading.active_count() == before


# A job that would compute for a minute, with the signals as a job has them.
JOB = """
import time
from batchmark_job.interruption import Interruption
from batchmark_job.machine import spot_notice

def keep(received):
    print(f"kept what was measured, by {received.name}", flush=True)
    return 143

interruption = Interruption()
interruption.watch()
interruption.on_stop = keep
spot_notice.watch(interruption.host_ends_soon, 0.05)
time.sleep(60)
"""


def test_a_job_with_notice_keeps_what_it_measured_and_stays_until_its_host_ends():
    with (
        metadata() as (_, environment),
        subprocess.Popen(
            [sys.executable, "-c", JOB],
            env={"PYTHONPATH": str(ROOT / "job_container"), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as job,
    ):
        try:
            assert "kept what was measured, by SIGTERM" in (
                line.strip() for line in iter(job.stdout.readline, "")
            )
            with pytest.raises(subprocess.TimeoutExpired):
                job.wait(0.3)
            job.send_signal(signal.SIGTERM)
            assert job.wait(WAIT_SECONDS) == 143
        finally:
            job.kill()
