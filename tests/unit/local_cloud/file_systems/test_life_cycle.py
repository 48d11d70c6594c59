"""File systems from CREATING to their end, and their folders."""

import errno

import pytest

from local_cloud.file_systems import models
from local_cloud.file_systems.folders import Folders, NotPermittedError, check_permitted, make_full
from tests.builders.files import program


def test_it_is_available_after_a_while(account):
    made = account.create()
    assert (account.lifecycle(made), account.folder(made).exists()) == ("CREATING", False)
    account.wait(299)
    assert account.lifecycle(made) == "CREATING"
    account.wait(1)
    assert (account.lifecycle(made), account.folder(made).is_dir()) == ("AVAILABLE", True)


def test_it_is_deleting_for_a_while_and_then_gone(account, refused):
    made = account.available()
    (account.folder(made) / "images").touch()
    deleted = account.fsx.delete_file_system(FileSystemId=made)
    assert (deleted["FileSystemId"], deleted["Lifecycle"]) == (made, "DELETING")
    account.wait(200)
    assert account.fsx.delete_file_system(FileSystemId=made)["Lifecycle"] == "DELETING"
    assert (account.lifecycle(made), account.folder(made).exists()) == ("DELETING", True)
    account.wait(100)
    for backend in models.used_backends():
        backend.settle()  # what its timer does: it goes without anybody asking
    assert not account.folder(made).exists()
    for call, request in (
        (account.fsx.describe_file_systems, {"FileSystemIds": [made]}),
        (account.fsx.delete_file_system, {"FileSystemId": made}),
    ):
        assert refused(f"{made}' does not exist", call, **request) == "FileSystemNotFound"
    assert account.fsx.describe_file_systems()["FileSystems"] == []


def test_a_creation_may_fail_and_can_be_deleted(account, begin):
    begin("file_system_creation_fails", reason="no capacity")
    made = account.create()
    assert account.lifecycle(made) == "CREATING"
    account.wait()
    found = account.describe(made)
    assert (found["Lifecycle"], found["FailureDetails"]) == ("FAILED", {"Message": "no capacity"})
    assert not account.folder(made).exists()
    account.fsx.delete_file_system(FileSystemId=made)
    account.wait()
    assert account.fsx.describe_file_systems()["FileSystems"] == []


def test_a_deletion_may_be_refused_once_and_slow(account, begin, refused):
    made, other = account.available(), account.available()
    begin("file_system_deletion_refused", file_system=made, times=1)
    account.fsx.delete_file_system(FileSystemId=other)
    account.wait()
    code = refused("data repository task", account.fsx.delete_file_system, FileSystemId=made)
    assert (code, account.lifecycle(made)) == ("BadRequest", "AVAILABLE")
    begin("file_system_deletion_slow", delay_seconds=1000.0)
    assert account.fsx.delete_file_system(FileSystemId=made)["Lifecycle"] == "DELETING"
    account.wait(1299)
    assert account.lifecycle(made) == "DELETING"
    account.wait(1)
    assert account.fsx.describe_file_systems()["FileSystems"] == []


def test_what_a_fault_covers_is_filled_again_when_room_was_made(account, begin, monkeypatch):
    filled = []
    monkeypatch.setattr(
        models, "make_full", lambda folder, free_mib: filled.append((folder.name, free_mib))
    )
    made, _other, _creating = account.available(), account.available(), account.create()
    begin("file_system_full", file_system=made, free_mib=3)
    models.fill_all()
    models.make_room()
    monkeypatch.setattr(models.FileSystemsBackend.folders, "is_full", lambda _: True)
    models.fill_all()
    assert filled == [(made, 3)] * 2


def test_operations_and_fields_that_are_missing_are_named(account, refused):
    made = account.available()
    tag = {"ResourceARN": "arn:aws:a", "TagKeys": ["a"]}
    backup = {"LustreConfiguration": {"SkipFinalBackup": False}}
    for name, call, request in (
        ("CreateBackup", account.fsx.create_backup, {"FileSystemId": made}),
        ("UpdateFileSystem", account.fsx.update_file_system, {"FileSystemId": made}),
        ("UntagResource", account.fsx.untag_resource, tag),
        ("MaxResults", account.fsx.describe_file_systems, {"MaxResults": 2}),
        ("LustreConfiguration", account.fsx.delete_file_system, {"FileSystemId": made} | backup),
    ):
        assert (
            refused(f"The local cloud does not support {name}: ", call, **request) == "BadRequest"
        )


def test_an_id_that_is_none(account, refused):
    code = refused("fileSystemId", account.fsx.delete_file_system, FileSystemId="file-system-1")
    assert code == "BadRequest"


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
