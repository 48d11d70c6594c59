"""Stores each S3 object's content only once, not every time its bucket changes."""

from __future__ import annotations

import sqlite3
import uuid
from typing import Any

from moto.s3.models import FakeKey

TABLE = "CREATE TABLE IF NOT EXISTS content (name TEXT PRIMARY KEY, data BLOB)"
MARK = "kept_as"  # an attribute of moto's buffer; a copied object has a new buffer


class Contents:
    """S3 objects' contents in the database. Call `write` and `delete_unused` in a transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._new: dict[str, bytes] = {}
        self._seen: set[str] = set()

    def name(self, key: FakeKey) -> str:
        """Return the name of an object's content; if the content is new, `write` will store it."""
        buffer = key._value_buffer
        where, name = getattr(buffer, MARK, (None, ""))
        if where is not self:
            name = uuid.uuid4().hex
            self._new[name] = b"" if buffer.closed else key.value
            setattr(buffer, MARK, (self, name))
        return name

    def write(self) -> None:
        """Write new contents; they count as new until `written` is called."""
        self._database.executemany("REPLACE INTO content VALUES (?, ?)", self._new.items())

    def written(self) -> None:
        """Record that the transaction that included `write` was committed."""
        self._new.clear()

    def restore(self, key: FakeKey, name: str, state: dict[str, Any]) -> None:
        (data,) = self._database.execute(
            "SELECT data FROM content WHERE name = ?", (name,)
        ).fetchone()
        key.__setstate__({**state, "value": data})
        setattr(key._value_buffer, MARK, (self, name))
        self._seen.add(name)

    def delete_unused(self) -> None:
        stored = {name for (name,) in self._database.execute("SELECT name FROM content")}
        gone = [(name,) for name in stored - self._seen]
        self._database.executemany("DELETE FROM content WHERE name = ?", gone)
