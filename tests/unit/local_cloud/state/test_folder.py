"""Whose folder a state is read from."""

import os
import threading
from types import SimpleNamespace

import pytest

from local_cloud.state import StateError, folder
from local_cloud.state.folder import private_file
from local_cloud.state.store import Store


@pytest.fixture
def state(tmp_path):
    made = tmp_path / "state"
    made.mkdir(mode=0o755)
    return made


def mode_of(path):
    return path.stat().st_mode & 0o777


def test_the_folder_and_all_its_files_are_the_owners_alone(state):
    before = os.umask(0)
    try:
        store = Store(state, threading.RLock())
        store.commit(None)
        assert {mode_of(path) for path in state.iterdir()} == {0o600}
        assert mode_of(state) == 0o700
        store.close()
    finally:
        os.umask(before)


def test_what_an_earlier_version_left_open_is_closed(state):
    (state / "state.sqlite").touch()
    (state / "state.sqlite").chmod(0o664)
    assert mode_of(private_file(state, "state.sqlite")) == 0o600


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o720, 0o1777])
def test_a_folder_that_others_write_to_is_refused(state, mode):
    state.chmod(mode)
    with pytest.raises(StateError, match=rf"write to {state} .*`chmod 700 {state}`"):
        private_file(state, "state.sqlite")
    assert list(state.iterdir()) == []


@pytest.mark.parametrize("foreign", ["folder", "file"])
def test_what_belongs_to_another_user_is_refused(state, monkeypatch, foreign):
    path = state if foreign == "folder" else state / "state.sqlite"
    (state / "state.sqlite").touch()
    stat = type(state).stat

    def of_another(self, **options):
        real = stat(self, **options)
        owner = 4321 if self == path else real.st_uid
        return SimpleNamespace(st_uid=owner, st_mode=real.st_mode)

    monkeypatch.setattr(type(state), "stat", of_another)
    with pytest.raises(StateError, match=f"{path} belongs to user 4321, not to you .*chown"):
        private_file(state, "state.sqlite")


def test_a_folder_that_cant_be_used_is_named(state, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(folder.Path, "touch", refuse)
    with pytest.raises(StateError, match=f"{state} can't be used: Permission denied"):
        private_file(state, "state.sqlite")
