import os
from itertools import chain
from pathlib import Path

import pytest

from batchmark_job.distributed.ranks.shards import find_shards, own_shards
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
