"""Array jobs on a compute environment of one instance, whose GPU they share."""

from pathlib import Path

import pytest

from local_cloud.batch.running import environment_variables
from local_cloud.batch.running.environment_variables import cuda, gpus
from tests.stand_ins.local_batch import local_batch

REPLICAS = 5


def add_queue(batch):
    """A queue whose environment is one g4dn.2xlarge: 8 vCPUs and a GPU."""
    one = {"instanceTypes": ["g4dn.2xlarge"], "maxvCpus": 8, "allocationStrategy": "BEST_FIT"}
    batch.environment("shared", **one)
    batch.queue(environment="shared")


@pytest.fixture
def batch():
    """A laptop: two vCPUs and one declared GPU."""
    with local_batch(vcpus=2, gpus=1) as made:
        add_queue(made)
        yield made


def define(batch, visible="all", **needs):
    environment = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": visible}]
    batch.define(container={"environment": environment}, needs={"MEMORY": 512} | needs)


def test_all_children_run_at_once_and_see_the_same_gpu(batch):
    define(batch)
    parent = batch.submit(arrayProperties={"size": REPLICAS})
    batch.wait_for_starts(REPLICAS)
    found = [environment_variables.for_node(one, {}) for one in batch.containers.launches]
    assert {each["NVIDIA_VISIBLE_DEVICES"] for each in found} == {"0"}
    assert {each["AWS_BATCH_JOB_ARRAY_INDEX"] for each in found} == set("01234")
    assert {each["AWS_BATCH_JOB_ARRAY_SIZE"] for each in found} == {"5"}
    hosts = {launch.record.container_instance_arn for launch in batch.containers.launches}
    assert len(hosts) == 1
    assert batch.finish(parent)["status"] == "SUCCEEDED"


def test_a_container_that_names_no_gpu_sees_none(batch):
    define(batch, visible="void")
    batch.submit()
    batch.wait_for_starts(1)
    (launch,) = batch.containers.launches
    assert launch.gpu_ids == ()


def test_a_job_that_does_not_fit_the_instance_never_starts(batch):
    define(batch, GPU=2)
    reason = batch.describe(batch.submit())["statusReason"]
    assert reason.startswith("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT")
    assert reason.endswith("The only instance in shared has 8 vCPUs, 32768 MiB and 1 GPUs.")


def test_a_machine_without_gpus_has_no_such_instance():
    with local_batch(vcpus=2) as batch:
        add_queue(batch)
        define(batch)
        assert "restart it with at least --gpus 1" in batch.describe(batch.submit())["statusReason"]


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
