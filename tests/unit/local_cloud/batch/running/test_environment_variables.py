from pathlib import Path

import pytest

from local_cloud.__main__ import endpoint_url
from local_cloud.batch.environment import cuda, gpus


@pytest.fixture
def devices(monkeypatch):
    """The device files there are."""
    present = set()
    monkeypatch.setattr(Path, "exists", lambda path: str(path) in present)
    return present


def test_without_gpus_nothing_is_said():
    assert gpus(()) == cuda(()) == {}


def test_declared_gpus_are_told_to_cuda_only_where_they_exist(devices):
    assert gpus(("0", "1")) == {"NVIDIA_VISIBLE_DEVICES": "0,1"}
    assert cuda(("0", "1")) == {}
    devices.add("/dev/nvidia0")
    assert cuda(("0", "1")) == {}
    devices.add("/dev/nvidia1")
    assert cuda(("0", "1")) == {"CUDA_VISIBLE_DEVICES": "0,1"}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("localhost", "http://localhost:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),  # noqa: S104
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
    ],
)
def test_jobs_reach_the_server_on_this_machine(host, expected):
    assert endpoint_url(host, 80) == expected
