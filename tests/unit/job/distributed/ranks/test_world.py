"""A rank's place and device, and what all ranks sum."""

from unittest import mock

import pytest
import torch

from batchmark_job.distributed.ranks import all_reduce
from batchmark_job.distributed.ranks.world import World
from batchmark_job.distributed.task import AllReduce
from batchmark_job.errors import CannotMeasureError, InputError
from tests.builders.shards import alone


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


@pytest.mark.parametrize("ranks", [1, 2, 160])
def test_the_expected_sums_are_those_of_all_ranks_values(ranks):
    values = [all_reduce.own_values(2_500, rank) for rank in range(ranks)]
    assert torch.equal(torch.stack(values).sum(0).double(), all_reduce.sums(2_500, ranks))


def task(size_bytes):
    return AllReduce(device="cpu", size_bytes=size_bytes, samples=3, max_seconds=1.0, threads=1)


def test_numbers_are_made_and_compared_in_parts(monkeypatch):
    """Of a tensor that fills a device nothing of its size is made beside it."""
    monkeypatch.setattr(all_reduce, "PART", 3_000)
    made = mock.Mock(wraps=all_reduce.own_values)
    monkeypatch.setattr(all_reduce, "own_values", made)
    assert all_reduce.measure(task(4 * 7_500), alone()).correctness.relative_error == 0
    assert max(call.args[0] for call in made.mock_calls) == 3_000


@pytest.mark.parametrize("wrong", [slice(None), slice(-1, None)])
def test_a_sum_that_is_off_by_one_is_wrong(monkeypatch, wrong):
    """Of all numbers, or of the last part's last."""

    def spoil(_self, tensor):
        tensor[wrong] += 1
        return tensor

    monkeypatch.setattr(all_reduce, "PART", 3_000)
    monkeypatch.setattr(World, "summed", spoil)
    answer = all_reduce.measure(task(4 * 7_500), alone())
    assert answer.wrong == "the sums over all ranks are not exact"
    assert not answer.correctness.passed


@pytest.mark.parametrize("size", [0, 3, 1026])
def test_a_size_that_holds_no_whole_number_is_refused(size, place):
    place()
    with pytest.raises(InputError, match=f"{size} bytes; use a multiple of 4"):
        all_reduce.all_reduce(task(size))
