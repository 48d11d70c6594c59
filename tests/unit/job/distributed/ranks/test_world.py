import pytest
import torch

from batchmark_job.distributed.ranks import all_reduce
from batchmark_job.distributed.ranks.world import World
from batchmark_job.errors import CannotMeasureError, InputError


@pytest.fixture
def chosen(monkeypatch):
    """The devices that are chosen on a node with two GPUs."""
    devices = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", devices.append)
    return devices


@pytest.mark.parametrize(
    ("device", "local_rank", "expected", "backend", "current"),
    [("cpu", 3, "cpu", "gloo", []), ("cuda", 1, "cuda:1", "nccl", [1])],
)
def test_each_rank_has_a_device_and_a_backend(
    monkeypatch, place, chosen, device, local_rank, expected, backend, current
):
    place(5, 8, local_rank)
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 29, 3))
    world = World.from_environment(device)
    assert (world.rank, world.size) == (5, 8)
    assert (world.device, world.backend) == (torch.device(expected), backend)
    assert chosen == current
    assert device == "cpu" or all_reduce._version(world) == "2.29.3"


def test_a_rank_without_a_gpu_of_its_own_is_refused(place, chosen):
    place(2, 4, 2)
    with pytest.raises(CannotMeasureError, match=r"2 GPU\(s\), but rank 2 .* 2 or fewer"):
        World.from_environment("cuda")


@pytest.mark.parametrize("value", ["", "-1", "one"])
def test_a_place_that_is_no_number_is_refused(place, value):
    place(size=value)
    message = f"WORLD_SIZE is '{value}'; start this program with torchrun"
    with pytest.raises(InputError, match=message):
        World.from_environment("cpu")
