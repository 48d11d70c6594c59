import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from batchmark_job import environment

TOKEN = "a-token"


class Metadata(BaseHTTPRequestHandler):
    """Instance metadata version 2 and the ECS agent's endpoint."""

    def do_PUT(self) -> None:
        given = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        self._answer(TOKEN if given and self.path == "/latest/api/token" else None)

    def do_GET(self) -> None:
        answers = {"/v4/task": json.dumps({"ImageID": "sha256:abc", "Image": "job:1"})}
        if self.headers.get("X-aws-ec2-metadata-token") == TOKEN:
            answers["/latest/meta-data/instance-type"] = "c5.2xlarge"
        self._answer(answers.get(self.path))

    def _answer(self, text: str | None) -> None:
        self.send_response(200 if text else 401)
        self.end_headers()
        self.wfile.write((text or "").encode())

    def log_message(self, *arguments: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def metadata_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def put(root: Path, name: str, text: str) -> Path:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    return root


def test_this_machine_is_described() -> None:
    described = environment.describe(compute_threads=1)
    assert described.cpu_cores >= 1
    assert described.cpu_threads >= 1
    assert described.memory_bytes > 2**28
    assert described.compute_threads == 1
    assert described.torch_version.startswith("2.")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
        ("sys/hypervisor/uuid", "ec2e1916-9099-7caf-fd21-012345abcdef\n"),
    ],
)
def test_instance_type_on_ec2(tmp_path: Path, metadata_url: str, file: str, text: str) -> None:
    root = put(tmp_path, file, text)
    assert environment.instance_type(root, metadata_url) == "c5.2xlarge"


def test_instance_type_is_not_asked_for_elsewhere(tmp_path: Path, metadata_url: str) -> None:
    root = put(tmp_path, "sys/class/dmi/id/sys_vendor", "QEMU\n")
    assert environment.instance_type(root, metadata_url) is None


def test_instance_type_without_an_answer(tmp_path: Path) -> None:
    root = put(tmp_path, "sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
    assert environment.instance_type(root, "http://127.0.0.1:1") is None


def test_image_digest_from_the_ecs_agent(
    metadata_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", f"{metadata_url}/v4/task")
    assert environment.image_digest() == "sha256:abc"
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", f"{metadata_url}/elsewhere")
    assert environment.image_digest() is None
    monkeypatch.delenv("ECS_CONTAINER_METADATA_URI_V4")
    assert environment.image_digest() is None


def test_threads_are_cut_by_a_quota(tmp_path: Path) -> None:
    unlimited = environment.usable_threads(tmp_path)
    version_2 = put(tmp_path / "2", "sys/fs/cgroup/cpu.max", "50000 100000\n")
    assert environment.usable_threads(version_2) == 1
    free = put(tmp_path / "free", "sys/fs/cgroup/cpu.max", "max 100000\n")
    assert environment.usable_threads(free) == unlimited
    version_1 = put(tmp_path / "1", "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n")
    put(version_1, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert environment.usable_threads(version_1) == 1


def test_cpu_model(tmp_path: Path) -> None:
    root = put(tmp_path, "proc/cpuinfo", "processor\t: 0\nmodel name\t: A Fine CPU\n")
    assert environment.cpu_model(root) == "A Fine CPU"
    assert environment.cpu_model(tmp_path / "nothing")
