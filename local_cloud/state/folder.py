"""The folder of the state: reading it runs code, so nobody else may write there."""

from __future__ import annotations

import os
from pathlib import Path

from local_cloud.state import StateError

OTHERS_WRITE = 0o022


def private_file(folder: Path, name: str) -> Path:
    """A file of ours in this folder, made if missing; both for their owner alone.

    Raises:
        StateError: the folder or the file is another user's, or others may write to the folder.
    """
    try:
        _require_ours(folder)
        mode = folder.stat().st_mode
        if mode & OTHERS_WRITE:
            raise StateError(
                f"other users may write to {folder} (mode {mode & 0o777:o}), and reading a state "
                f"runs code: if all in it is yours, `chmod 700 {folder}`, else name another folder"
            )
        folder.chmod(0o700)
        path = folder / name
        path.touch(mode=0o600)
        _require_ours(path)
        path.chmod(0o600)
    except OSError as error:
        raise StateError(f"{folder} can't be used: {error.strerror}") from error
    return path


def _require_ours(path: Path) -> None:
    owner, us = path.stat().st_uid, os.geteuid()
    if owner != us:
        raise StateError(
            f"{path} belongs to user {owner}, not to you ({us}), and reading a state runs code: "
            f"name a folder of your own, or `chown -R {us}` it if you trust what it holds"
        )
