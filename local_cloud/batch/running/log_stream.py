"""Writes a container's output to CloudWatch Logs, line by line."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from moto.logs.models import LogsBackend

from local_cloud.clock import now_milliseconds
from local_cloud.gaps import logs

MAX_EVENT_BYTES = 262_144 - 26  # each event has an overhead of 26 bytes
log = logging.getLogger(__name__)


@dataclass
class LogStream:
    """A container's log stream; nothing else writes to it."""

    backend: LogsBackend
    group: str
    name: str
    _lock: threading.RLock = field(
        init=False, repr=False, compare=False, default_factory=threading.RLock
    )

    def create(self) -> None:
        """Create the stream, along with its group if that does not exist."""
        self.backend.ensure_log_group(self.group)
        self.backend.ensure_log_stream(self.group, self.name)

    def clear(self) -> None:
        """Delete all events, because the whole output is about to be written again."""
        self.create()
        self.backend.groups[self.group].streams[self.name].events.clear()

    def write(self, *lines: bytes, written_at: int | None = None) -> None:
        """Append lines stamped with `written_at` (epoch milliseconds), or the current time if None.

        Drops empty lines, which CloudWatch rejects. Also drops all lines if the log group has been
        deleted or the disk is full.
        """
        group = self.backend.groups.get(self.group)
        if stream := group and group.streams.get(self.name):
            texts = messages(lines)
            try:
                # Never insert a line of one output before lines that may already have been read.
                with self._lock:
                    logs.put(stream, written_at or now_milliseconds(), texts)
            except sqlite3.Error as error:
                log.warning("some lines of the log %s were lost: %s", self.name, error)


@dataclass
class LossyLogStream(LogStream):
    """A log stream that loses its first `first` and its last `last` lines.

    It always holds back `last` lines, because any line could turn out to be among the last.
    """

    first: int
    last: int
    _held: deque[tuple[bytes, int]] = field(default_factory=deque)

    def write(self, *lines: bytes, written_at: int | None = None) -> None:
        time = written_at or now_milliseconds()
        not_empty = [line for line in lines if messages([line])]
        with self._lock:
            self._held += [(line, time) for line in not_empty[self.first :]]
            self.first -= min(self.first, len(not_empty))
            while len(self._held) > self.last:
                line, time = self._held.popleft()
                super().write(line, written_at=time)


def messages(lines: Iterable[bytes]) -> list[str]:
    texts = (line.decode("utf-8", errors="replace").rstrip("\r\n") for line in lines)
    return [text for text in texts if text]
