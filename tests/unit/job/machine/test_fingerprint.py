import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import torch

from batchmark_job import environment
from batchmark_job.result import Device

TOKEN = "a-token"


class Metadata(BaseHTTPRequestHandler):
    """Instance metadata version 2 and the ECS agent's endpoint."""

    def do_PUT(self) -> None:
        given = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        self._answer(TOKEN if given and self.path == "/latest/api/token" else None)

    def do_GET(self) -> None:
        answers = {"/v4/task": json.dumps({"ImageID": "sha256:abc", "Image": "job:1"})}
        if self.headers.get("X-aws-ec2-metadata-token") == TOKEN:
            answers["/latest/meta-data/ami-id"] = "ami-0123456789abcdef0"
            answers["/latest/meta-data/instance-type"] = "c5.2xlarge"
            answers["/latest/meta-data/placement/availability-zone"] = "us-east-1b"
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
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
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
    described = environment.describe(1, Device.CPU)
    assert described.cpu_cores >= 1
    assert described.cpu_threads >= 1
    assert described.memory_bytes > 2**28
    assert described.compute_threads == 1
    assert described.torch_version.startswith("2.")
    assert described.code_version == environment.code_version()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
        ("sys/hypervisor/uuid", "ec2e1916-9099-7caf-fd21-012345abcdef\n"),
    ],
)
def test_instance_type_zone_and_machine_image_on_ec2(
    tmp_path: Path, metadata_url: str, file: str, text: str
) -> None:
    root = put(tmp_path, file, text)
    zone = environment.instance_metadata("placement/availability-zone", root, metadata_url)
    assert zone == "us-east-1b"
    assert environment.instance_metadata("instance-type", root, metadata_url) == "c5.2xlarge"
    ami_id = environment.instance_metadata("ami-id", root, metadata_url)
    assert ami_id == "ami-0123456789abcdef0"


def test_instance_type_is_not_asked_for_elsewhere(tmp_path: Path, metadata_url: str) -> None:
    root = put(tmp_path, "sys/class/dmi/id/sys_vendor", "QEMU\n")
    assert environment.instance_metadata("instance-type", root, metadata_url) is None


def test_instance_type_without_an_answer(tmp_path: Path) -> None:
    root = put(tmp_path, "sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
    assert environment.instance_metadata("instance-type", root, "http://127.0.0.1:1") is None


def test_the_code_version_is_that_of_every_source_file_and_of_nothing_else(tmp_path: Path) -> None:
    def version(**files: str) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for name, text in files.items():
            put(folder, name, text)
        return environment.code_version(folder)

    files = {"job.py": "run()", "workloads/sort.py": "sort()"}
    first = version(**files)
    assert re.fullmatch("[0-9a-f]{12}", first)
    assert version(**dict(reversed(files.items()))) == first
    assert version(**files, **{"__pycache__/job.pyc": "compiled", "README.md": "words"}) == first
    others = [
        version(**files | {"job.py": "run( )"}),
        version(**files, **{"empty.py": ""}),
        version(**{"job.py": "run()", "workloads/sorting.py": "sort()"}),
        version(**{"job.py": "run()workloads/sort.py", "workloads/sort.py": ""}),
    ]
    assert len({first, *others}) == 1 + len(others)


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


def test_the_agents_answer_is_an_object_or_nothing(
    metadata_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", f"{metadata_url}/v4")
    assert environment.ecs_metadata("/task")["Image"] == "job:1"
    assert environment.ecs_metadata() == {}
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", "ftp://127.0.0.1")
    assert environment.ecs_metadata() == {}


def test_the_compute_environment_is_the_one_that_batch_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_BATCH_CE_NAME", "cpu-spot")
    assert environment.describe(1, Device.CPU).compute_environment == "cpu-spot"
    monkeypatch.setenv("AWS_BATCH_CE_NAME", "")
    assert environment.describe(1, Device.CPU).compute_environment is None


def four_threads(root: Path, siblings: list[str]) -> Path:
    for cpu, shared in enumerate(siblings):
        put(root, f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", f"{shared}\n")
    return root


@pytest.mark.parametrize(
    ("usable", "siblings", "cores"),
    [
        ({0, 1, 2, 3}, ["0,2", "1,3", "0,2", "1,3"], 2),
        ({0, 1, 2, 3}, ["0", "1", "2", "3"], 4),
        ({0, 2}, ["0,2", "1,3", "0,2", "1,3"], 1),
        ({0, 1}, ["0,2", "1,3", "0,2", "1,3"], 2),
        ({0, 1, 2, 3}, ["0,2", "1,3"], 4),
        ({0, 1, 2, 3}, [], 4),
    ],
)
def test_usable_cores(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    usable: set[int],
    siblings: list[str],
    cores: int,
) -> None:
    monkeypatch.setattr(environment.os, "sched_getaffinity", lambda _: usable, raising=False)
    assert environment.usable_cores(four_threads(tmp_path, siblings)) == cores


def test_usable_cores_are_cut_by_a_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    root = four_threads(tmp_path, ["0", "1", "2", "3"])
    assert environment.usable_cores(put(root, "sys/fs/cgroup/cpu.max", "150000 100000\n")) == 2


def test_this_machines_cores() -> None:
    assert 1 <= environment.usable_cores() <= environment.usable_threads()


def cache(root: Path, cpu: int, index: int, **values: object) -> None:
    for name, value in values.items():
        put(root, f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}", f"{value}\n")


def test_last_level_cache_is_the_sum_over_the_usable_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cpu in range(4):
        pair = "0-1" if cpu < 2 else "2-3"
        cache(tmp_path, cpu, 0, level=1, type="Data", size="32K", shared_cpu_list=cpu)
        cache(tmp_path, cpu, 1, level=1, type="Instruction", size="64K", shared_cpu_list=cpu)
        cache(tmp_path, cpu, 2, level=2, type="Unified", size="512K", shared_cpu_list=cpu)
        cache(tmp_path, cpu, 3, level=3, type="Unified", size="16384K", shared_cpu_list=pair)
    usable = {0, 1, 2, 3}
    monkeypatch.setattr(environment.os, "sched_getaffinity", lambda _: usable, raising=False)
    assert environment.last_level_cache_bytes(root=tmp_path) == 2 * 16 * 2**20
    usable -= {2, 3}
    assert environment.last_level_cache_bytes(root=tmp_path) == 16 * 2**20


def test_a_cache_that_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert environment.last_level_cache_bytes(root=tmp_path) is None
    cache(tmp_path, 0, 0, level="?", type="Unified", size="1K", shared_cpu_list=0)
    cache(tmp_path, 0, 1, level=1, type="Instruction", size="64K", shared_cpu_list=0)
    cache(tmp_path, 0, 2, type="Data", size="64K")
    assert environment.last_level_cache_bytes(root=tmp_path) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_cache_of_the_device_that_is_measured() -> None:
    on_gpu = environment.describe(1, Device.CUDA).last_level_cache_bytes
    assert on_gpu == torch.cuda.get_device_properties(0).L2_cache_size
    assert (
        environment.describe(1, Device.CPU).last_level_cache_bytes
        == environment.last_level_cache_bytes()
    )
