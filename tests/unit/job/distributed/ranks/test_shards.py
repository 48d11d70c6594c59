"""Shards: which of them a rank reads, how they are read, and what is wrong with some."""

import errno
import os
import time
from itertools import chain
from pathlib import Path

import pytest

from batchmark_job.distributed.ranks import reading
from batchmark_job.distributed.ranks.shards import find_shards, own_shards
from batchmark_job.distributed.task import Read
from batchmark_job.errors import InputError
from batchmark_job.image_set.making import make
from batchmark_job.image_set.manifest import FILE, Manifest, Settings
from batchmark_job.image_set.places import Folder
from tests.builders.shards import alone, write_shards

SETTINGS = Settings(count=4, size=16, shards=4, classes=10, seed=0)
INCOMPLETE = Manifest(settings=SETTINGS).model_dump_json()


def with_manifest(text):
    return lambda folder: (folder / FILE).write_text(text)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_share_all_shards_and_no_two_read_the_same(tmp_path, ranks):
    write_shards(tmp_path)
    shares = [
        own_shards(find_shards(tmp_path, alone(r, ranks)), alone(r, ranks)) for r in range(ranks)
    ]
    paths = [shard.path for shard in chain.from_iterable(shares)]
    assert sorted(paths) == sorted(tmp_path.glob("*.tar"))
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (Path.rmdir, "there does not exist; check that the file system is mounted"),
        (lambda _: None, r"contains 0 shards \(\*\.tar\) for 1 ranks"),
        (with_manifest(INCOMPLETE), "is not complete; run `batchmark-job images` again"),
        (with_manifest("{}"), r"manifest\.json is not a valid image-set manifest"),
    ],
    ids=["no folder", "empty", "incomplete", "no manifest"],
)
def test_a_folder_without_a_set_is_named(tmp_path, spoil, message):
    folder = tmp_path / "there"
    folder.mkdir()
    spoil(folder)
    with pytest.raises(InputError, match=message):
        find_shards(folder, alone())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda folder: os.truncate(folder / "shard-000001.tar", 1000),
            r"1\.tar has 1,000 bytes, b",
        ),
        (
            lambda folder: write_shards(folder, shards=1),
            r"000000\.tar is not part of the set that manifest\.json describes; remove it",
        ),
        (lambda folder: (folder / "shard-000002.tar").unlink(), r"2\.tar is missing, but "),
    ],
    ids=["truncated", "one too many", "one missing"],
)
def test_what_is_wrong_with_a_set_is_named(tmp_path, spoil, message):
    make(SETTINGS, Folder(tmp_path))
    assert len(find_shards(tmp_path, alone())) == 4
    spoil(tmp_path)
    with pytest.raises(InputError, match=message):
        find_shards(tmp_path, alone())


def test_too_few_shards_for_the_ranks_are_refused_with_the_number_to_make(tmp_path):
    write_shards(tmp_path)
    with pytest.raises(InputError, match=r"4 shards .* for 5 ranks.*--shards 5 or more"):
        find_shards(tmp_path, alone(4, 5))


@pytest.fixture
def folder(tmp_path):
    write_shards(tmp_path)
    return tmp_path


def task(folder, **changes):
    given = {"device": "cpu", "cold": False, "samples": 3, "max_seconds": 60.0, "threads": 2}
    return Read(folder=folder, **(given | changes))


@pytest.mark.parametrize(
    ("changes", "passes", "dropped"),
    [({}, 3, 4 * 4), ({"cold": True}, 1, 0), ({"max_seconds": 0.0}, 1, 2 * 4)],
)
def test_passes_of_which_the_warm_ones_drop_what_memory_holds(
    folder, changes, passes, dropped, monkeypatch
):
    advice = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *arguments: advice.append(arguments[3]))
    answer = reading.measure(task(folder, **changes), alone(), find_shards(folder, alone()))
    assert advice == [os.POSIX_FADV_DONTNEED] * dropped
    assert len(answer.samples_seconds) == passes
    assert len(answer.starts) == passes + 1
    assert answer.warmup_calls == (0 if changes.get("cold") else 1)
    assert (answer.cold_seconds == answer.samples_seconds[0]) == (answer.warmup_calls == 0)
    assert answer.bytes_moved == sum(path.stat().st_size for path in folder.glob("*.tar"))


def test_a_file_that_became_shorter_or_cannot_be_held_is_named(folder, monkeypatch):
    shards = find_shards(folder, alone())
    os.truncate(shards[2].path, 100)
    with pytest.raises(InputError, match=r"read 100 bytes from .*000002\.tar instead of [0-9,]+"):
        reading.read_all(shards, 2)
    # As Lustre answers where it can't take a file from S3.

    def full(*_arguments, **_options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(type(folder), "open", full)
    with pytest.raises(InputError, match=r"000000\.tar can't be read: the file system is full"):
        reading.read_all(shards, 1)


def test_warm_passes_follow_one_that_hydrates_and_is_no_sample(folder, monkeypatch):
    real, slow, took = reading.read_all, iter([0.3]), []

    def read_all(*arguments, **options):
        began = time.perf_counter()
        time.sleep(next(slow, 0.0))
        read = real(*arguments, **options)
        took.append(time.perf_counter() - began)
        return read

    monkeypatch.setattr(reading, "read_all", read_all)
    answer = reading.measure(task(folder), alone(), find_shards(folder, alone()))
    told = (answer.cold_seconds, *answer.samples_seconds)
    assert all(seconds >= own for seconds, own in zip(told, took, strict=True))
    assert took[0] > 0.3


def test_a_shard_with_other_bytes_than_the_manifest_says_is_named(tmp_path):
    make(Settings(count=4, size=16, shards=2, classes=10, seed=0), Folder(tmp_path))
    with (tmp_path / "shard-000001.tar").open("r+b") as file:
        file.seek(600)
        file.write(b"x")
    with pytest.raises(
        InputError, match=r"000001\.tar has SHA-256 \w{64}, but manifest\.json lists \w{64}; "
    ):
        reading.measure(task(tmp_path), alone(), find_shards(tmp_path, alone()))
