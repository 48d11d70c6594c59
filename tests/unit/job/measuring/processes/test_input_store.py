"""Inputs that a row's processes share: what is read is what was kept."""

import pytest
import torch

from batchmark_job.measuring.processes import input_store
from batchmark_job.measuring.processes.input_store import InputStore
from tests.builders.files import put


@pytest.fixture
def path():
    store = InputStore()
    assert store.path
    yield store.path
    store.close()


def test_inputs_come_back_in_their_layouts(path):
    kept = [
        (
            torch.rand(2, 3, 5, 7).contiguous(memory_format=torch.channels_last),
            torch.rand(11).to(torch.bfloat16),
            torch.rand(4, 4, requires_grad=True),
            torch.arange(6).reshape(2, 3),
        )
        for _ in range(3)
    ]
    assert input_store.save(path, kept)
    loaded = input_store.load(path)
    assert len(loaded) == len(kept)
    for expected, found in zip(kept, loaded, strict=True):
        for left, right in zip(expected, found, strict=True):
            assert torch.equal(left, right)
            assert (left.dtype, left.stride()) == (right.dtype, right.stride())
            assert (left.requires_grad, right.is_leaf) == (right.requires_grad, True)
            assert right.data_ptr() % input_store.ALIGNMENT == 0


def test_who_writes_into_inputs_writes_into_its_own_and_only_what_comes_back_alike_is_kept(path):
    assert input_store.save(path, [(torch.ones(1000),)])
    first, second = (input_store.load(path)[0][0] for _ in range(2))
    first.zero_()
    assert second.sum() == input_store.load(path)[0][0].sum() == 1000
    whole = torch.ones(4, 6)
    assert not input_store.save(path, [(whole, whole)])
    assert not input_store.save(path, [(whole[:, ::2],)])
    assert not input_store.save(path, [(whole.requires_grad_() * 2,)])


def test_large_pages_are_made_by_copying(path, monkeypatch):
    monkeypatch.setattr(input_store, "_large_pages", lambda: True)
    inputs = (torch.ones(3, requires_grad=True),)
    (copied,) = input_store.present(inputs)
    assert copied.requires_grad
    assert copied.data_ptr() != inputs[0].data_ptr()


@pytest.mark.parametrize(
    ("setting", "large"),
    [("[always] madvise never", True), ("always [madvise] never", True), ("always [never]", False)],
)
def test_large_pages_are_made_also_for_those_alone_who_ask(tmp_path, setting, large):
    put(tmp_path, "sys/kernel/mm/transparent_hugepage/enabled", setting)
    assert input_store._large_pages(tmp_path) is large
