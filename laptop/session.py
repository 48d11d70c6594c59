"""Who may run now: one demo at a time, and none beside `make up`."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from laptop.errors import LaptopError
from laptop.processes import processes_of
from laptop.stack import ROOT

UP = ROOT / "build" / "up"


class Clock:
    """Says what happens, with the seconds since the start."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._started:4.0f} s] {text}", flush=True)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold a stack's folder against a second command.

    Raises:
        LaptopError: another process holds it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LaptopError(
                f"another `make {folder.name}` is at work in this clone: wait for it, or stop it "
                "with Ctrl-C there"
            ) from None
        yield


def refuse_beside_up() -> None:
    """Two stacks would share the cores, and both would measure the other."""
    if processes_of(UP):
        raise LaptopError("`make up` is running here and would share the cores: `make down` first")
