"""Which of uv and pip installs what a lock file names."""

import os
import sys

import pytest

from laptop import install


@pytest.fixture(autouse=True)
def plain_pip(monkeypatch):
    """pip without this machine's settings."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_INDEX_URL", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def commands(monkeypatch):
    """What would have been run; no uv succeeds."""
    ran = []
    monkeypatch.setattr(install, "run", ran.append)
    monkeypatch.setattr(install, "succeeds", ran.append)
    return ran


def tools(commands):
    return ["uv" if command[0].endswith("/uv") else command[2] for command in commands]


def test_pip_takes_over_where_uv_fails(commands, tmp_path):
    lock = tmp_path / "lock.txt"
    install.install_locked(sys.executable, lock)
    assert tools(commands) == ["uv", "pip"]
    assert all(command[-2:] == ["-r", str(lock)] for command in commands)


@pytest.mark.parametrize(
    ("setting", "value"), [("PIP_INDEX_URL", "https://packages.example"), ("PIP_NO_INDEX", "1")]
)
def test_an_index_that_only_pip_knows_is_asked_by_pip(
    monkeypatch, commands, tmp_path, setting, value
):
    monkeypatch.setenv(setting, value)
    install.install_locked(sys.executable, tmp_path / "lock.txt")
    assert tools(commands) == ["pip"]


def test_an_index_beside_pypi_is_no_reason_for_pip(monkeypatch):
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://packages.example")
    assert not install.has_own_index(sys.executable)


def test_a_lock_that_lacks_a_pin_is_named(tmp_path):
    lock = tmp_path / "lock.txt"
    lock.write_text("torchaudio==2.0\n")
    with pytest.raises(SystemExit):
        install.pin("torch", lock)
