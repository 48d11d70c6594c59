"""EC2's and ECS's metadata services, answering here."""

import json

import pytest

from batchmark_job.machine import metadata
from tests.builders.files import put
from tests.stand_ins.http import serving

TOKEN = "a-token"


def answer(request):
    """As instance metadata version 2 and the ECS agent do."""
    answers = {"/v4/task": json.dumps({"ImageID": "sha256:abc", "Image": "job:1"})}
    if request.headers.get("X-aws-ec2-metadata-token-ttl-seconds"):
        answers = {"/latest/api/token": TOKEN} if request.command == "PUT" else {}
    if request.headers.get("X-aws-ec2-metadata-token") == TOKEN:
        answers["/latest/meta-data/ami-id"] = "ami-0123456789abcdef0"
        answers["/latest/meta-data/instance-type"] = "c5.2xlarge"
        answers["/latest/meta-data/placement/availability-zone"] = "us-east-1b"
    text = answers.get(request.path)
    return 200 if text else 401, (text or "").encode()


@pytest.fixture
def metadata_url():
    with serving(answer) as server:
        yield f"http://127.0.0.1:{server.server_port}"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
        ("sys/hypervisor/uuid", "ec2e1916-9099-7caf-fd21-012345abcdef\n"),
    ],
)
def test_instance_type_zone_and_machine_image_on_ec2(tmp_path, metadata_url, file, text):
    root = put(tmp_path, file, text)
    zone = metadata.instance_metadata("placement/availability-zone", root, metadata_url)
    assert zone == "us-east-1b"
    assert metadata.instance_metadata("instance-type", root, metadata_url) == "c5.2xlarge"
    ami_id = metadata.instance_metadata("ami-id", root, metadata_url)
    assert ami_id == "ami-0123456789abcdef0"


def test_instance_type_is_not_asked_for_elsewhere(tmp_path, metadata_url):
    root = put(tmp_path, "sys/class/dmi/id/sys_vendor", "QEMU\n")
    assert metadata.instance_metadata("instance-type", root, metadata_url) is None


def test_instance_type_without_an_answer(tmp_path):
    root = put(tmp_path, "sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
    assert metadata.instance_metadata("instance-type", root, "http://127.0.0.1:1") is None


def test_image_digest_from_the_ecs_agent(metadata_url, monkeypatch):
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", f"{metadata_url}/v4/task")
    assert metadata.image_digest() == "sha256:abc"
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", f"{metadata_url}/elsewhere")
    assert metadata.image_digest() is None
    monkeypatch.delenv("ECS_CONTAINER_METADATA_URI_V4")
    assert metadata.image_digest() is None


def test_the_agents_answer_is_an_object_or_nothing(metadata_url, monkeypatch):
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", f"{metadata_url}/v4")
    assert metadata.ecs_metadata("/task")["Image"] == "job:1"
    assert metadata.ecs_metadata() == {}
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", "ftp://127.0.0.1")
    assert metadata.ecs_metadata() == {}
