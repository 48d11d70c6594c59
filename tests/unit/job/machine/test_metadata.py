"""EC2's and ECS's metadata services and Spot's notice, answering here."""

import json
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from batchmark_job.machine import metadata, spot_notice
from batchmark_job.machine.metadata import IMDS_VARIABLE
from tests.builders.files import put
from tests.paths import ROOT
from tests.stand_ins.http import serving
from tests.waiting import PATIENCE_SECONDS

NOTICE = json.dumps({"action": "terminate", "time": "2026-11-24T05:02:00Z"})
ADVICE = json.dumps({"noticeTime": "2026-11-24T05:00:00Z"})
FOLDER = "/latest/meta-data/"
ACTION_PATH = f"{FOLDER}spot/instance-action"
ADVICE_PATH = f"{FOLDER}events/recommendations/rebalance"


class Service:
    """Version 2 of the instance metadata service, which answers to its token, and the ECS agent.

    It fails at first, so often, then gives advice, and notice once it has been asked for one four
    times.
    """

    def __init__(self, failing):
        self.failing = failing
        self.asked = []
        self.values = {
            ADVICE_PATH: ADVICE,
            f"{FOLDER}ami-id": "ami-0123456789abcdef0",
            f"{FOLDER}instance-type": "c5.2xlarge",
            f"{FOLDER}placement/availability-zone": "us-east-1b",
        }

    def __call__(self, request):
        if request.path == "/v4/task":
            return 200, json.dumps({"ImageID": "sha256:abc", "Image": "job:1"}).encode()
        if (request.command, request.path) == ("PUT", "/latest/api/token"):
            assert request.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
            self.asked.append("token")
            return (503, b"") if len(self.asked) <= self.failing else (200, b"token")
        if request.headers.get("X-aws-ec2-metadata-token") != "token":
            return 401, b""
        self.asked.append(request.path)
        if self.asked.count(ACTION_PATH) >= 4:
            self.values[ACTION_PATH] = NOTICE
        value = self.values.get(request.path)
        return (200, value.encode()) if value else (404, b"")


@contextmanager
def service(failing=4):
    """The service, and its variable."""
    made = Service(failing)
    with serving(made) as server:
        yield made, {IMDS_VARIABLE: f"http://127.0.0.1:{server.server_port}"}


@pytest.fixture
def metadata_url():
    with service(failing=0) as (_, environment):
        yield environment[IMDS_VARIABLE]


@pytest.mark.parametrize(
    ("file", "text", "url"),
    [
        ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n", "http://169.254.169.254"),
        ("sys/hypervisor/uuid", "ec2e1916-9099-7caf-fd21-012345abcdef\n", "http://169.254.169.254"),
        ("sys/class/dmi/id/sys_vendor", "QEMU\n", None),
    ],
)
def test_the_metadata_service_is_found_on_ec2_or_named(tmp_path, monkeypatch, file, text, url):
    monkeypatch.delenv(metadata.IMDS_VARIABLE, raising=False)
    assert metadata.imds_url(put(tmp_path, file, text)) == url
    monkeypatch.setenv(metadata.IMDS_VARIABLE, "http://127.0.0.1:9/_host/1")
    assert metadata.imds_url(tmp_path) == "http://127.0.0.1:9/_host/1"


def test_instance_type_zone_images_and_the_ecs_agents_digest(metadata_url, monkeypatch):
    assert metadata.instance_metadata("placement/availability-zone", metadata_url) == "us-east-1b"
    assert metadata.instance_metadata("instance-type", metadata_url) == "c5.2xlarge"
    assert metadata.instance_metadata("ami-id", metadata_url) == "ami-0123456789abcdef0"
    assert metadata.instance_metadata("ami-id", "http://127.0.0.1:1") is None, "no answer"
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", f"{metadata_url}/v4/task")
    assert metadata.image_digest() == "sha256:abc"
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", f"{metadata_url}/elsewhere")
    assert metadata.image_digest() is None
    monkeypatch.delenv("ECS_CONTAINER_METADATA_URI_V4")
    assert metadata.image_digest() is None


def test_a_notice_is_heard_once_and_advice_is_said_once_and_ends_nothing(monkeypatch, capfd):
    heard = threading.Event()
    with service() as (told, environment):
        monkeypatch.setenv(*environment.popitem())
        spot_notice.watch(heard.set, poll_seconds=0.01)
        assert heard.wait(PATIENCE_SECONDS)
    assert told.asked[:4] == ["token"] * 4, "a service that fails is asked again"
    assert told.asked.count(ACTION_PATH) == 4
    assert told.asked.count(ADVICE_PATH) == 1
    said = "".join(capfd.readouterr())
    assert said.count(f"Spot is interrupting this host: {NOTICE}") == 1
    assert said.count(f"Spot may interrupt this host soon; the job continues: {ADVICE}") == 1


def test_elsewhere_nothing_is_asked(monkeypatch):
    monkeypatch.delenv(IMDS_VARIABLE, raising=False)
    monkeypatch.setattr("batchmark_job.machine.metadata.on_ec2", lambda _: False)
    before = threading.active_count()
    spot_notice.watch(pytest.fail)
    assert threading.active_count() == before


# A job that would compute for an hour, with the signals as a job has them.
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
time.sleep(3600)
"""


def test_a_job_with_notice_keeps_what_it_measured_and_stays_until_its_host_ends():
    with (
        service() as (_, environment),
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
            assert job.wait(PATIENCE_SECONDS) == 143
        finally:
            job.kill()
