import os
from collections import Counter
from itertools import islice
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import torch
from torch._utils import ExceptionWrapper

from batchmark_job.distributed.ranks import loader
from batchmark_job.distributed.ranks.batches import Normaliser, batches
from batchmark_job.distributed.ranks.loader import Images, augmented, loaded_batches
from batchmark_job.distributed.ranks.shards import find_shards, own_shards
from batchmark_job.errors import InputError
from tests.builders.shards import a_task, alone, write_shard, write_shards

JPEG = bytes(cv2.imencode(".jpg", np.zeros((20, 24, 3), np.uint8))[1])


@pytest.fixture
def folder(tmp_path):
    write_shards(tmp_path, shards=6, images=3)
    return tmp_path


def labels_of(folder, rank, ranks, worker, workers, count, monkeypatch, seed=0):
    """The first labels that one worker of one rank reads."""
    info = SimpleNamespace(id=worker, num_workers=workers)
    monkeypatch.setattr(loader, "get_worker_info", lambda: info)
    world = alone(rank, ranks)
    shards = [shard.path for shard in own_shards(find_shards(folder, world), world)]
    return [label for _, label in islice(Images(shards, 32, (seed, rank)), count)]


@pytest.mark.parametrize(("ranks", "workers", "of_an_epoch"), [(3, 2, 3), (1, 4, None)])
def test_workers_read_each_image_once_in_an_epoch(folder, monkeypatch, ranks, workers, of_an_epoch):
    """Where four workers share six shards, two have more to do in each epoch than the others."""
    monkeypatch.setattr(loader, "SHUFFLED", 1)  # so that an epoch ends before the next begins
    count = 2 * 18 // (ranks * workers)
    read = [
        labels_of(folder, rank, ranks, worker, workers, count, monkeypatch)
        for rank in range(ranks)
        for worker in range(workers)
    ]
    assert Counter(label for labels in read for label in labels) == Counter(2 * [*range(18)])
    if of_an_epoch:
        first = [label for labels in read for label in labels[:of_an_epoch]]
        assert Counter(first) == Counter(range(18))


def test_each_shard_comes_from_the_file_system_in_an_order_that_the_seed_decides(
    folder, monkeypatch
):
    dropped = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *arguments: dropped.append(arguments[3]))
    labels_of(folder, 0, 1, 0, 1, 36, monkeypatch)
    assert set(dropped) == {os.POSIX_FADV_DONTNEED}
    assert len(dropped) >= 2 * 6
    first, again, other = (
        labels_of(folder, 0, 1, 0, 1, 18, monkeypatch, seed) for seed in (0, 0, 1)
    )
    assert first == again != other
    assert first != sorted(first)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on a single core
def test_batches_of_worker_processes_are_normalised_by_colour_and_channels_last_on_the_device(
    folder,
):
    task = a_task(data="files", folder=folder, batch=4, threads=2)
    with loaded_batches(task, alone()) as (found, workers):
        pictures, labels = next(found)
    assert workers == 2
    assert (pictures.shape, pictures.dtype) == ((4, 32, 32, 3), torch.uint8)
    for picture, label in zip(pictures, labels, strict=True):
        assert float((picture.float() - float(label)).abs().max()) < 4, "an image has its own label"
    task = a_task(data="files", folder=folder, dtype="bfloat16", threads=2)
    with batches(task, alone()) as source:
        pictures, _ = next(source.batches)
    assert (source.period, source.queued) == (2, 4)
    assert (pictures.shape, pictures.dtype) == ((2, 3, 32, 32), torch.bfloat16)
    assert pictures.is_contiguous(memory_format=torch.channels_last)
    assert float(pictures.max()) < -1.5, "almost black"
    pixels = torch.tensor([124, 116, 104], dtype=torch.uint8).expand(1, 2, 2, 3)
    pictures, _ = Normaliser("float64", torch.device("cpu"))(pixels, torch.tensor([0]))
    expected = [(124 - 123.675) / 58.395, (116 - 116.28) / 57.12, (104 - 103.53) / 57.375]
    assert pictures[0, :, 0, 0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (5, 400), (300, 200)])
def test_a_part_of_any_image_fills_the_size(height, width):
    rng = np.random.default_rng(0)
    pixels = rng.integers(256, size=(height, width, 3), dtype=np.uint8)
    assert augmented(pixels, 32, rng).shape == (32, 32, 3)


def test_parts_differ_in_place_size_and_side():
    """On a ramp from left to right, so that a mirrored part falls."""
    ramp = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2).repeat(256, axis=0)
    rng = np.random.default_rng(0)
    parts = [augmented(ramp, 32, rng).astype(int) for _ in range(40)]
    rises = [part[0, -1, 0] - part[0, 0, 0] for part in parts]
    assert 10 <= sum(rise > 0 for rise in rises) <= 30
    assert 10 <= sum(rise < 0 for rise in rises) <= 30
    assert min(map(abs, rises)) < 120
    assert max(map(abs, rises)) > 180


def shard_of(members):
    return lambda path: write_shard(path, members)


def cut_off(path):
    write_shard(path, {"0.jpg": JPEG, "0.cls": b"1"})
    path.write_bytes(path.read_bytes()[:700])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut_off, r"0\.tar is not a complete tar file .*; copy it again"),
        (lambda path: path.write_bytes(b"text"), r"0\.tar is not a complete tar file"),
        (shard_of({}), r"0\.tar contains no images"),
        (shard_of({"0.cls": b"1"}), r"0\.tar contains no decodable 0\.jpg"),
        (shard_of({"0.jpg": b"no picture", "0.cls": b"1"}), r"contains no decodable 0\.jpg"),
        (shard_of({"0.jpg": JPEG}), r"0\.tar contains '' in 0\.cls"),
        (
            shard_of({"0.jpg": JPEG, "0.cls": b"1000"}),
            r"contains '1000' in 0\.cls; a class must be a number from 0 to 999",
        ),
    ],
    ids=["cut off", "no tar", "empty", "no image", "no JPEG", "no class", "class too large"],
)
def test_a_spoilt_shard_is_named(tmp_path, spoil, message):
    spoil(tmp_path / "0.tar")
    with pytest.raises(InputError, match=message):
        next(iter(Images([tmp_path / "0.tar"], 32, (0,))))


def test_a_workers_error_is_told_without_its_traceback():
    """As torch raises it again; a worker that really fails takes torch five seconds to end."""
    error = InputError("0.tar contains no images; copy it again")
    raised = ExceptionWrapper((InputError, error, None), where="in DataLoader worker process 0")
    with pytest.raises(InputError) as caught:
        next(loader._with_plain_errors(raised.reraise() for _ in "1"))
    assert str(caught.value) == str(error)


def test_files_without_a_folder_are_refused():
    with pytest.raises(InputError, match="--files"), loaded_batches(a_task(data="files"), alone()):
        pass
