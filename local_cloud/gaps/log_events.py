"""Stores log events on disk, because a job can print more than fits in memory.

One SQLite database, either temporary or permanent, holds all events. Each row is a block of events
that share a time and were written to a stream together. A stream's events are ordered by time;
those with the same time are in the order in which they were written.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Self

from moto.logs.models import LogEvent

BLOCKS = 16  # blocks in memory at once, for each stream being read
TABLE = (
    "CREATE TABLE IF NOT EXISTS block (id INTEGER PRIMARY KEY, stream INTEGER, timestamp INTEGER, "
    "ingested INTEGER, events INTEGER, messages TEXT)"
)
INDEX = "CREATE INDEX IF NOT EXISTS by_time ON block (stream, timestamp, id, events)"
ADD = "INSERT INTO block (stream, timestamp, ingested, events, messages) VALUES (?, ?, ?, ?, ?)"
AFTER = (
    "SELECT timestamp, id, ingested, messages FROM block WHERE stream = ? "
    "AND (timestamp, id) >= (?, ?) AND timestamp <= ? ORDER BY timestamp, id LIMIT ?"
)
BEFORE = (
    "SELECT timestamp, id, ingested, messages FROM block WHERE stream = ? "
    "AND (timestamp, id) <= (?, ?) AND timestamp >= ? ORDER BY timestamp DESC, id DESC LIMIT ?"
)
# Two queries, each answered from the index: a single SELECT would scan block by block.
SPAN = (
    "SELECT (SELECT min(timestamp) FROM block WHERE stream = ?1), "
    "(SELECT max(timestamp) FROM block WHERE stream = ?1)"
)

# A place between two events of any stream: time, block and line of the next event.
Place = tuple[int, int, int]
HEAD: Place = (0, 0, 0)
TAIL: Place = (sys.maxsize, 0, 0)


class Event(NamedTuple):
    timestamp: int
    block: int
    line: int
    ingested: int
    message: str

    @property
    def id(self) -> int:
        """An id that is unique among all events, because each block has fewer than 2^20 events."""
        return self.block << 20 | self.line

    @property
    def place(self) -> Place:
        """The place just before this event."""
        return self.timestamp, self.block, self.line

    @property
    def next_place(self) -> Place:
        """The place just after this event."""
        return self.timestamp, self.block, self.line + 1


class Database:
    """The SQLite database of log events, which any thread can use."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        # An empty name makes a hidden file that is deleted with this process.
        self._connection = sqlite3.connect(
            path or "", isolation_level=None, check_same_thread=False
        )
        # No sync, as for the rest of the state; with WAL a SIGKILL still loses nothing.
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = OFF", TABLE, INDEX):
            self._connection.execute(statement)

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(statement, values).fetchall()


_database: list[Database] = []


def database() -> Database:
    """Return the database of all streams, which is temporary until `keep_in` is called."""
    if not _database:
        _database.append(Database())
    return _database[0]


def keep_in(path: Path) -> None:
    """Store all events in this file from now on, and make those already in it available."""
    _database[:] = [Database(path)]


def delete_all_but(streams: Collection[Events]) -> None:
    """Delete the events of all streams except these."""
    kept = {stream.number for stream in streams}
    for (number,) in database().run("SELECT DISTINCT stream FROM block"):
        if number not in kept:
            database().run("DELETE FROM block WHERE stream = ?", number)


class Events:
    """One stream's events; replaces moto's list."""

    def __init__(self, number: int | None = None) -> None:
        self.number = uuid.uuid4().int >> 65 if number is None else number

    def __reduce__(self) -> tuple[type[Events], tuple[int]]:
        return Events, (self.number,)

    def add(self, timestamp: int, ingested: int, messages: Sequence[str]) -> None:
        """Append messages that share a timestamp, given in epoch milliseconds."""
        if messages:
            text = json.dumps(messages)
            database().run(ADD, self.number, timestamp, ingested, len(messages), text)

    def __iadd__(self, events: Iterable[LogEvent]) -> Self:
        times = attrgetter("timestamp", "ingestion_time")
        for (timestamp, ingested), some in groupby(events, key=times):
            self.add(timestamp, ingested, [event.message for event in some])
        return self

    def clear(self) -> None:
        database().run("DELETE FROM block WHERE stream = ?", self.number)

    def __len__(self) -> int:
        found = database().run("SELECT sum(events) FROM block WHERE stream = ?", self.number)
        return int(found[0][0] or 0)

    def __iter__(self) -> Iterator[LogEvent]:
        for event in self.after(HEAD):
            yield motos_event(event.ingested, event.timestamp, event.message, event.id)

    def __bool__(self) -> bool:
        return self.span() != (None, None)

    def span(self) -> tuple[int | None, int | None]:
        """Return the times of the first and last events, or (None, None) if there are no events."""
        first, last = database().run(SPAN, self.number)[0]
        return first, last

    def after(self, place: Place, last: int = sys.maxsize) -> Iterator[Event]:
        """Yield events after a place, oldest first, up to and including the time `last`."""
        while blocks := database().run(AFTER, self.number, *place[:2], last, BLOCKS):
            for timestamp, block, ingested, messages in blocks:
                first = place[2] if block == place[1] else 0
                for line, message in enumerate(json.loads(messages)[first:], start=first):
                    yield Event(timestamp, block, line, ingested, message)
            place = (timestamp, block + 1, 0)

    def before(self, place: Place, first: int = 0) -> Iterator[Event]:
        """Yield events before a place, newest first, back to and including the time `first`."""
        while blocks := database().run(BEFORE, self.number, *place[:2], first, BLOCKS):
            for timestamp, block, ingested, messages in blocks:
                lines = json.loads(messages)[: place[2] if block == place[1] else None]
                for line in range(len(lines) - 1, -1, -1):
                    yield Event(timestamp, block, line, ingested, lines[line])
            place = (timestamp, block - 1, sys.maxsize)


def motos_event(ingested: int, timestamp: int, message: str, event_id: int) -> LogEvent:
    # Not made by moto's constructor, as its classes keep every instance in a list.
    made = object.__new__(LogEvent)
    made.ingestion_time, made.timestamp = ingested, timestamp
    made.message, made.event_id = message, event_id
    return made
