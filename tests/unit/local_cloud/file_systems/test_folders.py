"""Folders that are full for real."""

import errno

import pytest

from local_cloud.file_systems.folders import Folders, NotPermittedError, check_permitted, make_full
from tests.builders.files import program

FILE_SYSTEM = "fs-0123456789abcdef0"


def mounts_are_permitted():
    try:
        check_permitted()
    except NotPermittedError:
        return False
    return True


@pytest.fixture
def folders(tmp_path):
    made = Folders(tmp_path)
    yield made
    made.close()


@pytest.mark.skipif(not mounts_are_permitted(), reason="mounting a file system takes root")
def test_a_full_folder_keeps_its_files_takes_no_more_and_is_removed_as_any(folders):
    folder = folders.make(FILE_SYSTEM)
    (folder / "images").mkdir()
    kept = folder / "images" / "shard"
    kept.write_bytes(b"x" * 10_000)
    make_full(folder, free_mib=1)
    assert folders.is_full(FILE_SYSTEM)
    (folder / "fits").write_bytes(b"y" * 2**20)
    with pytest.raises(OSError, match="No space left") as refused:
        (folder / "more").write_bytes(b"z" * 2**20)
    assert refused.value.errno == errno.ENOSPC
    assert kept.read_bytes() == b"x" * 10_000
    folders.make_room()
    assert not folders.is_full(FILE_SYSTEM)
    (folder / "more").write_bytes(b"z" * 2**20)
    assert (folder / "fits").stat().st_size == 2**20
    assert [path.name for path in folder.parent.iterdir()] == [FILE_SYSTEM]
    make_full(folder, free_mib=0)
    folders.remove(FILE_SYSTEM)
    assert list(folder.parent.iterdir()) == []


def test_where_it_is_not_permitted_it_says_so(folders, monkeypatch, tmp_path):
    mount = program(tmp_path / "mount", "echo must be superuser >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotPermittedError, match="requires root with CAP_SYS_ADMIN: must be su"):
        check_permitted()
    mount.unlink()
    with pytest.raises(NotPermittedError, match="mount is not installed on this machine"):
        check_permitted()


def test_without_a_folder_of_the_state_all_is_temporary():
    folders = Folders()
    made = folders.make(FILE_SYSTEM)
    folders.close()
    assert not made.parent.exists()
