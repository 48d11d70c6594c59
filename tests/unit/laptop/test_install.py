"""Which of uv and pip installs what a lock file names."""

import os
import re
import subprocess
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


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({}, ["uv", "pip"]),
        ({"PIP_INDEX_URL": "https://packages.example"}, ["pip"]),
        ({"PIP_NO_INDEX": "1"}, ["pip"]),
        ({"PIP_EXTRA_INDEX_URL": "https://packages.example"}, ["uv", "pip"]),  # beside PyPI
    ],
)
def test_pip_takes_over_where_uv_fails_or_an_index_is_known_to_pip_alone(
    monkeypatch, commands, tmp_path, settings, asked
):
    for setting, value in settings.items():
        monkeypatch.setenv(setting, value)
    lock = tmp_path / "lock.txt"
    install.install_locked(sys.executable, lock)
    assert tools(commands) == asked
    assert all(command[-2:] == ["-r", str(lock)] for command in commands)
    assert all("--require-hashes" in command for command in commands)


def test_settings_that_pip_can_not_read_are_an_error(monkeypatch, tmp_path):
    (tmp_path / "pip.conf").write_text("index-url = https://packages.example")  # in no section
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    with pytest.raises(subprocess.CalledProcessError):
        install.has_own_index(sys.executable)


LOCK = """\
torch==2.13.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via batchmark (pyproject.toml)
nvidia-ml-py==13.0 \\
    --hash=sha256:cc
nvidia-cublas==13.1 ; sys_platform == 'linux' \\
    --hash=sha256:dd
    # via torch
"""
ML_PY = "nvidia-ml-py==13.0 \\\n    --hash=sha256:cc\n"


@pytest.fixture
def lock(monkeypatch, tmp_path):
    """The one lock there is."""
    lock = tmp_path / "requirements.txt"
    lock.write_text(LOCK)
    monkeypatch.setattr(install, "LOCKS", (lock,))
    monkeypatch.setattr(install, "LEFT", tmp_path / "left.txt")
    return lock


def test_torchs_cuda_build_is_torch_and_what_it_alone_brings():
    names = {name for name, _ in install.pins(install.LOCKS[0])}
    cuda = {name for name in names if re.fullmatch(install.CUDA_BUILD, name)}
    assert {"torch", "nvidia-cublas", "cuda-toolkit"} <= cuda
    assert {"nvidia-ml-py", "triton"} <= names - cuda


@pytest.mark.parametrize(("works", "expected"), [(True, ML_PY), (False, LOCK)])
def test_the_cpu_build_of_torch_replaces_what_the_lock_has_for_cuda(
    monkeypatch, commands, lock, works, expected
):
    monkeypatch.setattr(install, "has_cpu_torch", lambda python: works)
    monkeypatch.setattr(install, "STAMP", lock.with_name("stamp"))
    monkeypatch.setattr(install.sys, "platform", "linux")
    monkeypatch.setattr(install, "install_locked", lambda python, lock: read.append(lock))
    read = []
    assert install.install("cpu") == 0
    assert read[0].read_text() == expected


def test_the_cpu_build_is_asked_for_in_the_version_that_is_locked(commands, lock):
    assert not install.has_cpu_torch(sys.executable)
    assert [command[-1] for command in commands] == ["torch==2.13.0+cpu", "torch==2.13.0"]
    assert all("--no-deps" in command for command in commands)
