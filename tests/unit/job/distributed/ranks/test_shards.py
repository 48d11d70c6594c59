import os
from itertools import chain

import pytest

from batchmark_job.distributed.ranks.shards import find_shards, own
from batchmark_job.errors import InputError
from batchmark_job.image_set.making import make
from batchmark_job.image_set.manifest import FILE, Manifest, Settings
from batchmark_job.image_set.places import Folder
from tests.builders.shards import alone, write_shards

SETTINGS = Settings(count=4, size=16, shards=4, classes=10, seed=0)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_share_all_shards_and_no_two_read_the_same(tmp_path, ranks):
    write_shards(tmp_path)
    shares = [own(find_shards(tmp_path, alone(r, ranks)), alone(r, ranks)) for r in range(ranks)]
    paths = [shard.path for shard in chain.from_iterable(shares)]
    assert sorted(paths) == sorted(tmp_path.glob("*.tar"))
    assert len(set(paths)) == len(paths)


def test_a_made_set_is_found(tmp_path):
    make(SETTINGS, Folder(tmp_path))
    assert len(find_shards(tmp_path, alone())) == 4


def missing_folder(folder):
    return folder / "away"


def empty(folder):
    return folder


def incomplete(folder):
    (folder / FILE).write_text(Manifest(settings=SETTINGS).model_dump_json())
    return folder


def other_manifest(folder):
    (folder / FILE).write_text("{}")
    return folder


def truncated(folder):
    make(SETTINGS, Folder(folder))
    os.truncate(folder / "shard-000001.tar", 1000)
    return folder


def one_missing(folder):
    make(SETTINGS, Folder(folder))
    (folder / "shard-000002.tar").unlink()
    return folder


def one_too_many(folder):
    make(SETTINGS, Folder(folder))
    write_shards(folder, shards=1)
    return folder


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        (missing_folder, "away is not there; is the file system mounted"),
        (empty, r"holds 0 shards \(\*\.tar\) for 1 ranks"),
        (incomplete, "is not complete; run `batchmark-job images` again"),
        (other_manifest, r"manifest\.json is no manifest"),
        (truncated, r"shard-000001\.tar has 1,000 bytes instead of [0-9,]+ by manifest\.json"),
        (one_too_many, r"000000\.tar is not of the set that manifest\.json describes; remove it"),
        (one_missing, r"shard-000002\.tar is missing instead of"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, spoilt, message):
    with pytest.raises(InputError, match=message):
        find_shards(spoilt(tmp_path), alone())


def test_too_few_shards_for_the_ranks_are_refused_with_the_number_to_make(tmp_path):
    write_shards(tmp_path)
    with pytest.raises(InputError, match=r"4 shards .* for 5 ranks.*--shards 5 or more"):
        find_shards(tmp_path, alone(4, 5))
