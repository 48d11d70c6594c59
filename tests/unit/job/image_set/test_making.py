import errno
import hashlib
import io
import os
import re
import tarfile
from unittest import mock

import boto3
import cv2
import numpy as np
import pytest
from moto import mock_aws

from batchmark_job.command_line import main
from batchmark_job.errors import InputError, OutputError
from batchmark_job.image_set import making
from batchmark_job.image_set.making import image, make
from batchmark_job.image_set.manifest import FILE, Manifest, Settings
from batchmark_job.image_set.places import Folder, Prefix, parse_place
from tests.documented import arguments, the_command

SETTINGS = Settings(count=10, size=32, shards=3, classes=5, seed=7)
OTHER = SETTINGS.model_copy(update={"seed": 8})


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_same_options_give_the_same_shards_of_all_images_as_the_manifest_describes(tmp_path):
    for name, settings in (("a", SETTINGS), ("b", SETTINGS), ("c", OTHER)):
        make(settings, Folder(tmp_path / name))
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert files(tmp_path / "a") != files(tmp_path / "c")
    found = files(tmp_path / "a")
    manifest = Manifest.model_validate_json(found.pop(FILE))
    assert manifest.settings == SETTINGS
    assert sorted(found) == [shard.name for shard in manifest.shards]
    names = []
    for shard in manifest.shards:
        content = found[shard.name]
        assert (shard.bytes, shard.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            members = archive.getmembers()
            names += [member.name for member in members]
            assert len(members) == 2 * shard.images
            assert {(member.mtime, member.uid, member.uname) for member in members} == {(0, 0, "")}
            label = int(archive.extractfile(members[1]).read())
            assert 0 <= label < 5
    assert names == [f"{number:06d}.{suffix}" for number in range(10) for suffix in ("jpg", "cls")]


class FillsUp(Folder):
    """A folder whose disk is full after some files."""

    def write(self, name, content):
        if len(list(self.path.glob("*.tar"))) == 2:
            raise OutputError("full")
        super().write(name, content)


def test_what_an_attempt_left_is_kept_and_the_rest_is_made(tmp_path, monkeypatch):
    make(SETTINGS, Folder(tmp_path / "whole"))
    place = tmp_path / "part"
    with pytest.raises(OutputError, match="full"):
        make(SETTINGS, FillsUp(place))
    assert not Manifest.model_validate_json((place / FILE).read_bytes()).complete
    encode = mock.Mock(wraps=making.encoded_shard)
    monkeypatch.setattr(making, "encoded_shard", encode)
    for _ in range(2):  # what is complete is left alone
        make(SETTINGS, Folder(place))
        assert [call.args[0] for call in encode.call_args_list] == [2]
        assert files(place) == files(tmp_path / "whole")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"photo.jpg": b""}, r"contains 1 other file\(s\), such as photo\.jpg"),
        ({FILE: b"[]"}, r"contains a manifest\.json that is not from an image set"),
        (
            {FILE: Manifest(settings=OTHER).model_dump_json().encode()},
            r"another image set \(--count 10, --size 32, --shards 3, --classes 5, --seed 8\)",
        ),
    ],
)
def test_a_place_with_something_else_is_refused_and_left_alone(tmp_path, other, message):
    for name, content in other.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        make(SETTINGS, Folder(tmp_path))
    assert files(tmp_path) == other


def test_a_full_disk_is_named_and_leaves_nothing_half_written(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"No space left on device; free some space and run"):
        make(SETTINGS, Folder(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_it_goes_to_a_bucket_and_is_found_there_again(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    make(SETTINGS, Folder(tmp_path))
    with mock_aws():
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        client = boto3.client("s3")
        client.create_bucket(Bucket="data")
        client.put_object(Bucket="data", Key="other/file", Body=b"")
        place = parse_place("s3://data/images/")
        make(SETTINGS, place)
        assert {name: place.read(name) for name in place.names()} == files(tmp_path)
        client.delete_object(Bucket="data", Key="images/shard-000001.tar")
        make(SETTINGS, place)
        assert place.names() == set(files(tmp_path))
        make(SETTINGS, place)
        assert "already exists" in capsys.readouterr().out
        with pytest.raises(InputError, match=r"--to s3://away/: can't list its files"):
            make(SETTINGS, Prefix("away", ""))


def thumbnail(jpeg):
    pixels = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    return cv2.resize(pixels, (4, 4), interpolation=cv2.INTER_AREA).ravel().astype(float)


def test_images_of_a_class_are_alike(tmp_path):
    """So that a network can learn; the file's size per pixel is a photograph's."""
    made = [image(number, 64, 2, 0) for number in range(40)]
    small = np.array([thumbnail(jpeg) for jpeg, _ in made])
    labels = np.array([label for _, label in made])
    means = np.array([small[:20][labels[:20] == label].mean(0) for label in (0, 1)])
    nearest = ((small[20:, None] - means) ** 2).sum(2).argmin(1)
    assert (nearest == labels[20:]).mean() > 0.8
    assert 0.3 < len(image(0, 256, 1000, 0)[0]) / 256**2 < 0.8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--count", "x"], "--count 'x' is not a whole number"),
        (["--classes", "1001"], "--classes 1001 is out of range; use 1 to 1000"),
        (["--seed", "-1"], "--seed -1 is negative"),
        (["--count", "3", "--shards", "4"], "--shards 4 is more than --count 3"),
        (["--count", "1000000", "--shards", "2"], r"about 18\.3 GiB; use 19 or more"),
        (["--to", ""], "--to is empty"),
        (["--to", "https://x/y"], "--to 'https://x/y' is neither a folder nor"),
        (["--to", "s3:///y"], "--to 's3:///y' is neither a folder nor"),
    ],
)
def test_bad_values_are_refused_in_one_line(options, message, tmp_path, capsys):
    assert main(["images", "--to", str(tmp_path / "new"), *options]) == 2
    said = capsys.readouterr().err
    assert re.search(message, said), said
    assert not (tmp_path / "new").exists()


def test_the_documented_command_makes_a_set(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(making, "REPORT_SECONDS", 0.0)
    given = arguments(the_command(".venv/bin/batchmark-job images"))
    assert given[-2:] == ["--to", "/tmp/images/"]
    assert main([*given[:-1], f"{tmp_path}/", "--count", "32", "--size", "16"]) == 0
    said = capsys.readouterr().out
    assert f"2 of 32 images written to {tmp_path}" in said
    assert f"in {tmp_path} is complete: 32 images in 16 shards, 0.2 MB" in said
    assert len(files(tmp_path)) == 16 + 1
