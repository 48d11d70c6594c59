import os
import shutil
import subprocess

import pytest

from tests.stand_ins.wrapped_commands import INSTALLED, SHELLS, Wrapped


@pytest.fixture(params=INSTALLED)
def shell(request):
    _, *options = SHELLS[request.param]
    return [INSTALLED[request.param], *options]


@pytest.fixture
def wrapped(shell, tmp_path):
    return Wrapped(shell, tmp_path)


@pytest.fixture
def programs(shell, tmp_path, monkeypatch):
    """Puts programs on the PATH, each a text of shell; or all there are but some."""
    folder = tmp_path / "programs"
    folder.mkdir()

    def put(**texts):
        for name, text in texts.items():
            path = folder / name
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def only(*names):
        own = subprocess.run(
            [*shell, "-c", "rm --help"], env={"PATH": ""}, capture_output=True, check=False
        )
        if own.returncode == 0:
            pytest.skip("this shell has all programs in itself")
        for name in names:
            (folder / name).symlink_to(shutil.which(name))
        monkeypatch.setenv("PATH", str(folder))

    put.only = only
    return put
