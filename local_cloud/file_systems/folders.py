"""The folders of this machine that stand for file systems."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cached_property
from pathlib import Path

from local_cloud.file_systems import full

MODE = 0o755


class Folders:
    """A folder for each file system, by its id, below `given`; by default in a temporary folder."""

    def __init__(self, given: Path | None = None) -> None:
        self._given = given

    @cached_property
    def _root(self) -> Path:
        if self._given is None:
            return Path(tempfile.mkdtemp(prefix="local-cloud-file-systems-"))
        self._given.mkdir(mode=0o700, exist_ok=True)
        return self._given

    def path(self, file_system_id: str) -> Path:
        return self._root / file_system_id

    def make(self, file_system_id: str) -> Path:
        """The folder; what a killed server's fault has mounted there is gone."""
        folder = self.path(file_system_id)
        folder.mkdir(mode=MODE, exist_ok=True)
        self._unmount(folder)
        return folder

    def is_full(self, file_system_id: str) -> bool:
        """Whether a fault has made it so."""
        return os.path.ismount(self.path(file_system_id))

    def make_room(self) -> None:
        """End what makes folders full."""
        for folder in list(self._root.iterdir()):
            if os.path.ismount(folder):
                full.make_room(folder)

    def remove(self, file_system_id: str) -> None:
        folder = self.path(file_system_id)
        self._unmount(folder)
        shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Remove a temporary folder with all file systems; leave one that was given."""
        if "_root" not in vars(self):
            return
        for folder in self._root.iterdir():
            self._unmount(folder)
        if self._given is None:
            shutil.rmtree(self._root, ignore_errors=True)

    def _unmount(self, folder: Path) -> None:
        if os.path.ismount(folder):
            full.unmount(folder)
