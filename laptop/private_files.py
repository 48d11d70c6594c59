"""Creates files and folders that only their owner can read."""

from __future__ import annotations

import os
from pathlib import Path


def make_private(folder: Path) -> None:
    """Create the folder if necessary, and make it accessible only to its owner."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file completely or not at all; if `mode` lets others read it, the folder must not."""
    unfinished = path.with_name(f".{path.name}")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, mode)
        file.write(text)
    unfinished.rename(path)
