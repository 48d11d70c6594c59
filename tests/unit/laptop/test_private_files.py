"""Files of a stack that other users of this machine can't read."""

import os
import stat

import pytest

from laptop.private_files import make_private, write_private


@pytest.fixture(autouse=True)
def no_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_its_owners_alone_even_in_the_place_of_an_open_one(tmp_path):
    path = tmp_path / "secret"
    path.write_text("old")
    assert mode_of(path) == 0o666
    (tmp_path / ".secret").write_text("half")  # a killed write left it
    write_private(path, "new")
    assert (path.read_text(), mode_of(path)) == ("new", 0o600)
    write_private(path, "readable", 0o644)
    assert (path.read_text(), mode_of(path)) == ("readable", 0o644)
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_its_owners_alone(tmp_path):
    make_private(tmp_path / "a" / "b")
    assert mode_of(tmp_path / "a" / "b") == 0o700
    (tmp_path / "a" / "b").chmod(0o777)
    make_private(tmp_path / "a" / "b")
    assert mode_of(tmp_path / "a" / "b") == 0o700
