"""Builds the sample installation's pages while a stack starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from laptop.errors import LaptopError
from laptop.processes import end_of

ROOT = Path(__file__).resolve().parent.parent
FOLDER, FIRST = "sample", "index.html"


@contextmanager
def sample_beside(
    folder: Path, env: Mapping[str, str], say: Callable[[str], None]
) -> Iterator[None]:
    """Build the sample pages in `folder`/sample while the block runs, and wait for them at its end.

    `say` is told, possibly by another thread, as soon as they can be opened.

    Raises:
        LaptopError: the pages could not be built.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "sample.log"
    # Everything else that starts has priority.
    argv = ["nice", "-n", "19", sys.executable, "-m", "sample", str(folder / FOLDER)]
    with log.open("w") as out:
        making = subprocess.Popen(
            argv,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def tell() -> None:
        if making.wait() == 0:
            say(f"sample pages can be opened: {folder / FOLDER / FIRST}")

    telling = Thread(target=tell)
    telling.start()
    try:
        yield
        telling.join()
    finally:
        making.kill()
        telling.join()
    if making.returncode:
        raise LaptopError(f"could not build the sample pages; {end_of(log)}")
