"""Makes a folder full for real: a memory file system that has its content and little room."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

MIB = 2**20


class NotPermittedError(Exception):
    """This process may not mount anything."""


def fill(folder: Path, free_mib: int) -> None:
    """Leave this much room in a folder; whoever writes more gets ENOSPC.

    Raises:
        NotPermittedError: it takes root, or CAP_SYS_ADMIN.
    """
    staging = folder.with_name(f"{folder.name}.full")
    staging.mkdir()
    size = max(mmap.PAGESIZE, in_pages(folder) + free_mib * MIB)  # a size of 0 is no limit
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
    """Raise NotPermittedError where `fill` can't be done."""
    with TemporaryDirectory() as folder:
        run("mount", "-t", "tmpfs", "-o", f"size={mmap.PAGESIZE}", "tmpfs", folder)
        unmount(Path(folder))


def make_room(folder: Path) -> None:
    """Put the content back on the disk, with what was changed meanwhile."""
    kept = folder.with_name(f"{folder.name}.kept")
    shutil.copytree(folder, kept, symlinks=True)
    unmount(folder)
    shutil.rmtree(folder)
    kept.rename(folder)


def in_pages(folder: Path) -> int:
    """The bytes that a folder's files take in memory, which is given out in pages."""
    sizes = [
        (Path(where) / name).lstat().st_size
        for where, _, names in os.walk(folder)
        for name in names
    ]
    return sum(-(-size // mmap.PAGESIZE) * mmap.PAGESIZE for size in sizes)


def unmount(folder: Path) -> None:
    """Unmount at once, even if files there are open: those who have them keep them."""
    run("umount", "--lazy", str(folder))


def run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise NotPermittedError(f"{command[0]} is not installed here") from error
    except subprocess.CalledProcessError as error:
        raise NotPermittedError(
            f"{command[0]} was refused to user {os.geteuid()}, and needs root with "
            f"CAP_SYS_ADMIN: {error.stderr.strip()}"
        ) from error
