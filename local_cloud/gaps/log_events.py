"""The events of log streams, on disk: a job may print more than fits into memory.

They are in one SQLite database, a temporary file of its own or one that stays. A row is a block:
events of one stream that were written together at one time. A stream's events are in the order of
their times, and of one time in the order in which they were written.
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

BLOCKS = 16  # that are in memory at once, of each stream that is read
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
# Each by the index: both of one SELECT would be looked for block by block.
SPAN = (
    "SELECT (SELECT min(timestamp) FROM block WHERE stream = ?1), "
    "(SELECT max(timestamp) FROM block WHERE stream = ?1)"
)

# A place between two events of any stream: the time, block and line of the one behind it.
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
        """Unique among all events: a block has fewer than 2^20."""
        return self.block << 20 | self.line

    @property
    def place(self) -> Place:
        """Just before it."""
        return self.timestamp, self.block, self.line

    @property
    def next_place(self) -> Place:
        """Just behind it."""
        return self.timestamp, self.block, self.line + 1


class Database:
    """Takes calls from any thread."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        # An empty name: a file that nobody sees and that is gone with this process.
        self._connection = sqlite3.connect(
            path or "", isolation_level=None, check_same_thread=False
        )
        # No sync, as of the rest of the state; with WAL a SIGKILL loses nothing all the same.
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = OFF", TABLE, INDEX):
            self._connection.execute(statement)

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(statement, values).fetchall()


_database: list[Database] = []


def database() -> Database:
    """The one of all streams: a temporary one until `keep_in`."""
    if not _database:
        _database.append(Database())
    return _database[0]


def keep_in(path: Path) -> None:
    """From now on keep all events in this file, and find those that are there."""
    _database[:] = [Database(path)]


def delete_all_but(streams: Collection[Events]) -> None:
    """Free the room of streams that are gone."""
    kept = {stream.number for stream in streams}
    for (number,) in database().run("SELECT DISTINCT stream FROM block"):
        if number not in kept:
            database().run("DELETE FROM block WHERE stream = ?", number)


class Events:
    """The events of one stream, in place of moto's list."""

    def __init__(self, number: int | None = None) -> None:
        self.number = uuid.uuid4().int >> 65 if number is None else number

    def __reduce__(self) -> tuple[type[Events], tuple[int]]:
        return Events, (self.number,)

    def add(self, timestamp: int, ingested: int, messages: Sequence[str]) -> None:
        """Append what was written at one time, in epoch milliseconds."""
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
        """The first and the last event's time; None where there are no events."""
        first, last = database().run(SPAN, self.number)[0]
        return first, last

    def after(self, place: Place, last: int = sys.maxsize) -> Iterator[Event]:
        """The events behind a place up to a time, the first one first."""
        while blocks := database().run(AFTER, self.number, *place[:2], last, BLOCKS):
            for timestamp, block, ingested, messages in blocks:
                first = place[2] if block == place[1] else 0
                for line, message in enumerate(json.loads(messages)[first:], start=first):
                    yield Event(timestamp, block, line, ingested, message)
            place = (timestamp, block + 1, 0)

    def before(self, place: Place, first: int = 0) -> Iterator[Event]:
        """The events before a place, from a time on, the last one first."""
        while blocks := database().run(BEFORE, self.number, *place[:2], first, BLOCKS):
            for timestamp, block, ingested, messages in blocks:
                lines = json.loads(messages)[: place[2] if block == place[1] else None]
                for line in range(len(lines) - 1, -1, -1):
                    yield Event(timestamp, block, line, ingested, lines[line])
            place = (timestamp, block - 1, sys.maxsize)


def motos_event(ingested: int, timestamp: int, message: str, event_id: int) -> LogEvent:
    # Not as moto makes one: its classes keep in a list whatever they make.
    made = object.__new__(LogEvent)
    made.ingestion_time, made.timestamp = ingested, timestamp
    made.message, made.event_id = message, event_id
    return made
