"""Triton's stub for the driver, compiled with the image so that a job needs no compiler."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

FOLDER = "BATCHMARK_TRITON_STUB"


def shipped() -> Path | None:
    """The Triton cache that came with the image, where there is one."""
    folder = Path(os.environ.get(FOLDER) or os.devnull)
    return folder if folder.is_dir() else None


@cache
def install() -> None:
    """Copy it into the cache that Triton reads and writes; what is there already stays."""
    source = shipped()
    if source is None:
        return
    import triton

    target = Path(triton.knobs.cache.dir)
    for file in source.glob("*/*"):
        copy = target / file.relative_to(source)
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            # Renamed when whole: another process may have loaded the one that was there.
            with tempfile.NamedTemporaryFile(dir=copy.parent, delete=False) as part:
                part.write(file.read_bytes())
            shutil.copymode(file, part.name)
            Path(part.name).replace(copy)
