"""Files that are no result documents are named, and read no further than they must be."""

import os
from pathlib import Path

import pytest

from batchmark.core.errors import CollectError
from batchmark.runs.document_files import read_documents
from tests.builders.documents import repeats
from tests.builders.own_jobs import CPU, GPU, left_by_try_job


def huge(path):
    """A terabyte that takes no room."""
    with path.open("wb") as file:
        file.truncate(2**40)


NO_FILE = "not a result document: it is not a regular file"
# How each is made, and what is said of it.
ODD_FILES = {
    "pipe": (os.mkfifo, NO_FILE),
    "device": (lambda path: path.symlink_to("/dev/zero"), NO_FILE),
    "folder": (Path.mkdir, NO_FILE),
    "huge": (huge, "not a result document: larger than 16 MiB"),
    "empty": (Path.touch, "not a result document: it is empty"),
    "made up by the kernel": (lambda path: path.symlink_to("/proc/self/status"), "it is empty"),
    "loop": (lambda path: path.symlink_to(path), "can't be read: Too many levels of symbolic"),
    "dangling": (lambda path: path.symlink_to("gone"), "can't be read: No such file"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("make", "says"), ODD_FILES.values(), ids=ODD_FILES)
def test_what_is_no_file_or_has_no_end_is_named(tmp_path, make, says):
    folder = repeats(tmp_path / "new", 0.01, count=1)
    odd = folder / "odd.json"
    make(odd)
    with pytest.raises(CollectError, match=says) as caught:
        read_documents(folder)
    assert str(odd) in str(caught.value)


@pytest.mark.parametrize("made", ["file", "folder"])
def test_what_may_not_be_read_is_named(tmp_path, made, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    folder = repeats(tmp_path / "new", 0.01, count=1)
    monkeypatch.setattr(*(Path, "open") if made == "file" else (os, "listdir"), refuse)
    with pytest.raises(CollectError, match=r"new.* can't be read: Permission denied"):
        read_documents(folder)


def test_a_runs_folders_are_read_where_all_are_of_one_run_and_one_target(tmp_path):
    raw = left_by_try_job(tmp_path, CPU, GPU, run_id="a")
    first = next(raw.glob(f"a/{CPU.target}/*/1/*.1.json"))
    again = first.read_text().replace('"job_attempt": 1,', '"job_attempt": 2,')
    first.with_name(first.name.replace(".1.json", ".2.json")).write_text(again)
    found = read_documents(raw / "a" / CPU.target)
    assert len(found) == len(set(found)) == 7
    assert sorted(document.job_attempt for document in found.values()) == [1] * 6 + [2]
    assert {document.target for document in found.values()} == {CPU.target}
    assert {file.parent.parent.parent.name for file in found} == {CPU.target}


@pytest.mark.parametrize(
    ("sides", "folder", "says"),
    [
        ([("a", CPU), ("a", GPU)], "a", "several targets (c5.2xlarge, g5.xlarge); choose one"),
        ([("a", CPU), ("b", CPU)], "", "several runs (a, b); choose one of their folders, such as"),
        ([("a", CPU), ("b", GPU)], "", "several runs (a, b) and several targets (c5.2xlarge, g5."),
        ([("manual", CPU)], "", "contains subfolders with documents from jobs that were run by"),
    ],
)
def test_folders_of_several_runs_or_targets_or_of_none_are_refused(tmp_path, sides, folder, says):
    for run_id, side in sides:
        raw = left_by_try_job(tmp_path, side, run_id=run_id)
    with pytest.raises(CollectError) as refused:
        read_documents(raw / folder)
    assert says in str(refused.value)
    assert ("such as" not in says) or str(refused.value).endswith(f"{raw}/a/c5.2xlarge")
