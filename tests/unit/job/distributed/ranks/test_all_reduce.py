import pytest
import torch

from batchmark_job.distributed.ranks import all_reduce
from batchmark_job.distributed.task import AllReduce
from batchmark_job.errors import InputError
from tests.builders.shards import alone


@pytest.mark.parametrize("ranks", [1, 2, 160])
def test_the_expected_sums_are_those_of_all_ranks_values(ranks):
    values = [all_reduce.own_values(2_500, rank) for rank in range(ranks)]
    assert torch.equal(torch.stack(values).sum(0).double(), all_reduce.sums(2_500, ranks))


def test_a_sum_that_is_off_by_one_is_wrong(monkeypatch):
    world = alone()
    monkeypatch.setattr(type(world), "summed", lambda _self, tensor: tensor.add_(1))
    task = AllReduce(device="cpu", size_bytes=4096, samples=3, max_seconds=1.0, threads=1)
    answer = all_reduce.measure(task, world)
    assert answer.wrong == "the sums over all ranks are not exact"
    assert not answer.correctness.passed


def test_numbers_are_made_and_compared_in_parts(monkeypatch):
    """Of a tensor that fills a device nothing of its size is made beside it."""
    monkeypatch.setattr(all_reduce, "PART", 3_000)
    made = []
    real = all_reduce.own_values
    monkeypatch.setattr(
        all_reduce, "own_values", lambda count, rank: made.append(count) or real(count, rank)
    )
    world = alone()
    task = AllReduce(device="cpu", size_bytes=4 * 7_500, samples=3, max_seconds=1.0, threads=1)
    assert all_reduce.measure(task, world).correctness.relative_error == 0
    assert max(made) == 3_000

    def spoil_the_last(_self, tensor):
        tensor[-1] += 1
        return tensor

    monkeypatch.setattr(type(world), "summed", spoil_the_last)
    assert all_reduce.measure(task, world).wrong is not None


@pytest.mark.parametrize("size", [0, 3, 1026])
def test_a_size_that_holds_no_whole_number_is_refused(size, monkeypatch):
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    task = AllReduce(device="cpu", size_bytes=size, samples=3, max_seconds=1.0, threads=1)
    with pytest.raises(InputError, match=f"{size} bytes .* multiple of 4"):
        all_reduce.all_reduce(task)
