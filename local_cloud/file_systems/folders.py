"""Manages the local folders that back file systems.

A full file system is emulated by copying its content to a tmpfs with little free space and
mounting that over the folder.
"""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import tempfile
from functools import cached_property
from pathlib import Path

MIB = 2**20
MODE = 0o755  # as of the tmpfs in `make_full`


class Folders:
    """One folder per file system, named after its id, in `given` or a temporary folder."""

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
        """Create a file system's folder, unmounting what a killed server left mounted on it."""
        folder = self.path(file_system_id)
        folder.mkdir(mode=MODE, exist_ok=True)
        unmount(folder)
        return folder

    def is_full(self, file_system_id: str) -> bool:
        """Return whether a fault has filled the file system."""
        return os.path.ismount(self.path(file_system_id))

    def make_room(self) -> None:
        """Undo `make_full` for all folders."""
        for folder in list(self._root.iterdir()):
            if os.path.ismount(folder):
                put_back(folder)

    def remove(self, file_system_id: str) -> None:
        folder = self.path(file_system_id)
        unmount(folder)
        shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Unmount all file systems, and delete them if their folder is temporary."""
        if "_root" not in vars(self):
            return
        for folder in self._root.iterdir():
            unmount(folder)
        if self._given is None:
            shutil.rmtree(self._root, ignore_errors=True)


class NotPermittedError(Exception):
    """Raised when this process can't mount anything."""


def make_full(folder: Path, free_mib: int) -> None:
    """Limit a folder's free space to `free_mib` so that writing more fails with ENOSPC.

    Raises:
        NotPermittedError: this process can't mount; mounting requires root with CAP_SYS_ADMIN.
    """
    staging = folder.with_name(f"{folder.name}.full")
    staging.mkdir()
    size = max(mmap.PAGESIZE, in_pages(folder) + free_mib * MIB)  # a size of 0 means no limit
    try:
        run("mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", str(staging))
        try:
            shutil.copytree(folder, staging, symlinks=True, dirs_exist_ok=True)
            run("mount", "--bind", str(staging), str(folder))
        finally:
            unmount(staging)
    finally:
        staging.rmdir()


def check_permitted() -> None:
    """Raise NotPermittedError if this process can't mount anything, as `make_full` needs to."""
    with tempfile.TemporaryDirectory() as folder:
        run("mount", "-t", "tmpfs", "-o", f"size={mmap.PAGESIZE}", "tmpfs", folder)
        unmount(Path(folder))


def put_back(folder: Path) -> None:
    """Undo `make_full`: copy the content, including any changes, back to disk."""
    kept = folder.with_name(f"{folder.name}.kept")
    shutil.copytree(folder, kept, symlinks=True)
    unmount(folder)
    shutil.rmtree(folder)
    kept.rename(folder)


def in_pages(folder: Path) -> int:
    """Return how many bytes a folder's files occupy in memory, which is allocated in pages."""
    sizes = [
        (Path(where) / name).lstat().st_size
        for where, _, names in os.walk(folder)
        for name in names
    ]
    return sum(-(-size // mmap.PAGESIZE) * mmap.PAGESIZE for size in sizes)


def unmount(folder: Path) -> None:
    """Unmount a folder if it is mounted, lazily so that processes can still use open files."""
    if os.path.ismount(folder):
        run("umount", "--lazy", str(folder))


def run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise NotPermittedError(f"{command[0]} is not installed on this machine") from error
    except subprocess.CalledProcessError as error:
        raise NotPermittedError(
            f"{command[0]} failed for user {os.geteuid()}; it requires root with CAP_SYS_ADMIN: "
            f"{error.stderr.strip()}"
        ) from error
