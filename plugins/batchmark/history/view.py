"""Caches the history for the pages: each file is read once, and snapshots speed up restarts.

Without snapshots, the first page after a restart would have to read all of a month's files. With
them, it reads only newer files. Snapshots are a cache, so deleting them loses nothing.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator, Mapping
from io import BytesIO
from threading import Lock
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from batchmark.changes import conditions
from batchmark.core.errors import CollectError
from batchmark.history import series
from batchmark.history.file_reader import FileReader
from batchmark.history.parquet import FileLocation, concatenated, schema_for
from batchmark.history.store import PARQUET, HistoryStore

SNAPSHOTS = "history_snapshots/"
# A snapshot is written again once so many files are missing from it: reading them takes some 50 ms.
WORTH_A_SNAPSHOT = 25
MOST_SNAPSHOT_BYTES = 32 * 2**20
MOST_SNAPSHOT_ROWS = 400_000
SOURCE = "source"  # the column with each row's place among the files
VERSIONS = b"versions"
COLUMNS = tuple(dict.fromkeys((*series.COLUMNS, *conditions.COLUMNS, "job_id")))


class _CachedRows(NamedTuple):
    """A suite's cached rows for one month, and the files they come from."""

    versions: Mapping[str, str]  # ETags by key
    rows: pa.Table


class HistoryView:
    """The history's rows by suite, loaded as far back as requested; thread-safe."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store
        self._held: dict[tuple[str, str], _CachedRows] = {}
        self._joined: dict[str, tuple[list[pa.Table], pa.Table]] = {}
        self._lock = Lock()
        self._schema = schema_for(COLUMNS).append(pa.field(SOURCE, pa.int32()))
        self._nothing = concatenated([], self._schema).combine_chunks()

    def suites(self) -> list[str]:
        return self._store.suites()

    @property
    def unreadable(self) -> list[str]:
        """The keys of files that were skipped because they couldn't be read."""
        return list(dict.fromkeys(self._store.unreadable))

    def rows(self, suite: str, *, least_runs: int | None = None) -> pa.Table:
        """Return a suite's current rows, with the columns in COLUMNS.

        With `least_runs`, they are from the latest months only: as few months as contain
        `least_runs` runs. The table is the same object as long as its files are unchanged.
        """
        parts: list[pa.Table] = []
        runs = 0
        for month in reversed(self._store.months(suite)):
            held = self._month(suite, month)
            parts.insert(0, held.rows)
            runs += len(held.versions)  # a run has a file in each month
            if least_runs is not None and runs >= least_runs:
                break
        if not parts:  # of any word that somebody asks for; nothing is kept of it
            return self._nothing
        with self._lock:
            before, joined = self._joined.get(suite, ([], None))
            is_same = len(before) == len(parts) and all(map(operator.is_, before, parts))
            if joined is None or not is_same:
                joined = concatenated(parts, self._schema).combine_chunks()
                self._joined[suite] = parts, joined
        return joined

    def months(self, suite: str) -> Iterator[tuple[str, pa.Table]]:
        """Yield each month's rows, latest first."""
        for month in reversed(self._store.months(suite)):
            yield month, self._month(suite, month).rows

    def _month(self, suite: str, month: str) -> _CachedRows:
        versions = self._store.versions(suite, month)
        with self._lock:
            held = self._held.get((suite, month)) or self._snapshot(suite, month)
            if held.versions != versions:
                held = self._renewed(_key(suite, month), held, versions)
            self._held[suite, month] = held
        return held

    def _renewed(
        self, snapshot: str, held: _CachedRows, versions: Mapping[str, str]
    ) -> _CachedRows:
        places = {key: place for place, key in enumerate(versions)}
        new = [key for key, etag in versions.items() if held.versions.get(key) != etag]
        # The places of the files now; -1 of those that are gone or were replaced.
        moved = [
            places[key] if versions.get(key) == etag else -1 for key, etag in held.versions.items()
        ]
        sources = np.array(moved, np.int32)[held.rows[SOURCE].to_numpy()]
        column = held.rows.schema.get_field_index(SOURCE)
        kept = held.rows.set_column(column, SOURCE, pa.array(sources))
        tables = [kept.filter(pc.greater_equal(kept[SOURCE], 0))]
        locations = [location for key in new if (location := FileLocation.of(key))]
        for some in self._store.files(COLUMNS, locations):
            for where, rows in some.items():
                source = np.full(rows.num_rows, places[where.key], np.int32)
                tables.append(rows.append_column(SOURCE, pa.array(source)))
        rows = concatenated(tables, self._schema).combine_chunks()
        renewed = _CachedRows(versions, rows)
        if len(new) >= WORTH_A_SNAPSHOT:
            self._store.objects.put(snapshot, _encode(renewed), PARQUET)
        return renewed

    def _snapshot(self, suite: str, month: str) -> _CachedRows:
        """Load an earlier process's snapshot, or an empty one if that is missing or unusable."""
        empty = _CachedRows({}, self._schema.empty_table())
        try:
            found = self._store.objects.read_if_there(
                _key(suite, month), most_bytes=MOST_SNAPSHOT_BYTES
            )
            if found is None:
                return empty
            with FileReader(self._decode) as reader:
                rows = reader.read(found, FileLocation(suite, month, ""))
        except (CollectError, pa.ArrowInvalid):
            return empty
        versions = json.loads(rows.schema.metadata[VERSIONS])
        return _CachedRows(versions, rows.replace_schema_metadata(None))

    def _decode(self, body: bytes, _: FileLocation) -> pa.Table:
        texts = [field.name for field in self._schema if pa.types.is_dictionary(field.type)]
        file = pq.ParquetFile(BytesIO(body), read_dictionary=texts)
        if file.metadata.num_rows > MOST_SNAPSHOT_ROWS:
            raise ValueError(f"{file.metadata.num_rows} rows")
        rows = file.read()
        versions = json.loads(rows.schema.metadata[VERSIONS])
        if set(rows.column_names) != set(self._schema.names):
            raise ValueError("columns from another release")
        sources = rows[SOURCE].to_numpy()
        if sources.size and not 0 <= sources.min() <= sources.max() < len(versions):
            raise ValueError("rows that belong to no file")
        metadata = {VERSIONS: json.dumps(versions).encode()}
        return rows.select(self._schema.names).cast(self._schema).replace_schema_metadata(metadata)


def _key(suite: str, month: str) -> str:
    return f"{SNAPSHOTS}suite={suite}/{month}.parquet"


def _encode(held: _CachedRows) -> bytes:
    sink = BytesIO()
    metadata = {VERSIONS: json.dumps(dict(held.versions)).encode()}
    pq.write_table(held.rows.replace_schema_metadata(metadata), sink, compression="zstd")
    return sink.getvalue()
