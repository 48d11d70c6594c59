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
