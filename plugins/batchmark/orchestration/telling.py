"""What tasks tell people, through the log.

What is printed takes another way to a task's log: it may arrive after the line that begins one of
Airflow's collapsed groups, and then nobody sees it.
"""

from __future__ import annotations

import io
import logging
from typing import IO, cast

from rich.console import Console

log = logging.getLogger("batchmark.task")


def tell(*texts: object) -> None:
    """Log each line of the texts."""
    for text in texts:
        for line in str(text).splitlines() or [""]:
            log.info("%s", line)


def console(width: int = 160) -> Console:
    """A console whose lines go to the log."""
    return Console(file=cast("IO[str]", _Lines()), width=width)


class _Lines(io.TextIOBase):
    """Text that is told line by line."""

    def __init__(self) -> None:
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            tell(line)
        return len(text)
