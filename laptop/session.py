"""Ensures that a clone runs only one stack at a time, as two would disturb each other."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from batchmark.core import output
from laptop.errors import LaptopError
from laptop.processes import processes_of
from laptop.stack import BUILD


class Clock:
    """Prints lines prefixed with the seconds since the clock was created."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        told = f"[{time.monotonic() - self._started:4.0f} s] {output.line(text)}\n"
        print(told, end="", flush=True)  # in one piece, as threads tell theirs, too


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Lock a stack's folder while the block runs.

    Raises:
        LaptopError: another process holds the lock.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LaptopError(
                f"another `make {folder.name}` is running in this clone: wait for it to finish, or "
                "stop it with Ctrl-C in its terminal"
            ) from None
        yield


def refuse_at_once(folder: Path) -> None:
    """Fail early if `exclusive` or `refuse_beside_others` would fail later.

    Raises:
        LaptopError: another process has locked the folder, or another stack of this clone is
            running.
    """
    with exclusive(folder):
        refuse_beside_others(folder)


def refuse_beside_others(folder: Path) -> None:
    """Raise LaptopError if another of this clone's stacks is running.

    Only stacks in `build/` count; tests, for example, have theirs elsewhere.
    """
    others = [path for path in BUILD.glob("*/") if path != folder.resolve()]
    running = [path for path in others if processes_of(path)] if folder.parent == BUILD else []
    if running:
        name = running[0].name
        how = (
            "run `make down` first"
            if name == "up"
            else "wait for it to finish, or stop it with Ctrl-C in its terminal"
        )
        raise LaptopError(
            f"`make {name}` is running in this clone and would compete for the CPU cores: {how}"
        )
