"""What S3's objects contain: written once each, not with every change of their bucket."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

    from moto.s3.models import FakeKey

TABLE = "CREATE TABLE IF NOT EXISTS content (name TEXT PRIMARY KEY, data BLOB)"
MARK = "kept_as"  # on moto's buffer, which a copy of an object has anew


class Contents:
    """The table of contents. `write` and `forget_others` want a transaction around them."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._new: dict[str, bytes] = {}
        self._seen: set[str] = set()

    def name(self, key: FakeKey) -> str:
        """A name for an object's content, which `write` will have written."""
        buffer = key._value_buffer
        where, name = getattr(buffer, MARK, (None, ""))
        if where is not self:
            name = uuid.uuid4().hex
            self._new[name] = b"" if buffer.closed else key.value
            setattr(buffer, MARK, (self, name))
        return name

    def write(self) -> None:
        """Write what is new; where that fails, it stays new."""
        self._database.executemany("REPLACE INTO content VALUES (?, ?)", self._new.items())

    def written(self) -> None:
        """What was new is on disk."""
        self._new.clear()

    def give_back(self, key: FakeKey, name: str, state: dict[str, Any]) -> None:
        """Make an object what it was."""
        (data,) = self._database.execute(
            "SELECT data FROM content WHERE name = ?", (name,)
        ).fetchone()
        key.__setstate__({**state, "value": data})
        setattr(key._value_buffer, MARK, (self, name))
        self._seen.add(name)

    def forget_others(self) -> None:
        """Delete what no object has that was given back: those objects are gone."""
        stored = {name for (name,) in self._database.execute("SELECT name FROM content")}
        gone = [(name,) for name in stored - self._seen]
        self._database.executemany("DELETE FROM content WHERE name = ?", gone)
