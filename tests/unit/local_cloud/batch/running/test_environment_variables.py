from pathlib import Path

import pytest

from local_cloud.batch.running.environment_variables import cuda, gpus


@pytest.fixture
def devices(monkeypatch):
    """The device files there are."""
    present = set()
    monkeypatch.setattr(Path, "exists", lambda path: str(path) in present)
    return present


def test_cuda_gets_declared_gpus_only_if_all_exist(devices):
    assert gpus(()) == cuda(()) == {}
    assert gpus(("0", "1")) == {"NVIDIA_VISIBLE_DEVICES": "0,1"}
    assert cuda(("0", "1")) == {}
    devices.add("/dev/nvidia0")
    assert cuda(("0", "1")) == {}
    devices.add("/dev/nvidia1")
    assert cuda(("0", "1")) == {"CUDA_VISIBLE_DEVICES": "0,1"}
