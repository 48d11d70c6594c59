"""Triton's driver stub, compiled when the image is built so that jobs need no compiler."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

FOLDER = "BATCHMARK_TRITON_STUB"


def shipped() -> Path | None:
    """Return the Triton cache shipped with the image, or None if it has none."""
    folder = Path(os.environ.get(FOLDER) or os.devnull)
    return folder if folder.is_dir() else None


@cache
def install() -> None:
    """Copy the shipped stub into Triton's cache, keeping files that already exist there."""
    source = shipped()
    if source is None:
        return
    import triton

    target = Path(triton.knobs.cache.dir)
    for file in source.glob("*/*"):
        copy = target / file.relative_to(source)
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            # Renamed when complete: another process may have loaded the old file.
            with tempfile.NamedTemporaryFile(dir=copy.parent, delete=False) as part:
                part.write(file.read_bytes())
            shutil.copymode(file, part.name)
            Path(part.name).replace(copy)
