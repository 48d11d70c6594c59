"""Encode and decode the history's Parquet files."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import date, datetime, time
from io import BytesIO
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from batchmark.history.columns import PARTITION_KEYS, SCHEMA, STRING

if TYPE_CHECKING:
    from batchmark.history.rows import Row

FOLDER = "history/"
FILTERED = {"recorded_at", "run_id"}
# Most strings repeat from row to row: dictionaries keep each in memory once.
TEXT = pa.dictionary(pa.int32(), STRING)
# What pyarrow raises for a damaged or foreign file, ValueError if a column's name is not UTF-8.
UNREADABLE = (pa.ArrowException, OSError, ValueError)


class FileLocation(NamedTuple):
    """Where a file is: there is one per suite, month, and run or imported file."""

    suite: str
    month: str
    name: str

    @property
    def key(self) -> str:
        return f"{FOLDER}suite={self.suite}/month={self.month}/{self.name}.parquet"

    @classmethod
    def of(cls, key: str) -> Self | None:
        """Parse a key; None if it is not that of a history file."""
        parts = re.fullmatch(
            rf"{FOLDER}suite=([^/]+)/month=([0-9]{{4}}-[0-9]{{2}})/([^/]+)\.parquet", key
        )
        return cls._make(parts.groups()) if parts else None


def encode_rows(rows: Sequence[Row], name: str) -> dict[str, bytes]:
    """Return the files of a run or an imported file by key; equal rows give equal bytes."""

    def partition(row: Row) -> tuple[str, str]:
        return row["suite"], row["month"]

    return {
        FileLocation(suite, month, name).key: encode(
            pa.Table.from_pylist(list(group), schema=SCHEMA)
        )
        for (suite, month), group in groupby(sorted(rows, key=partition), key=partition)
    }


def encode(table: pa.Table) -> bytes:
    sink = BytesIO()
    # Arrow's own schema, which only pyarrow reads, would add a quarter to a small file.
    pq.write_table(table, sink, compression="zstd", store_schema=False)
    return sink.getvalue()


def schema_for(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of rows in memory: the given columns, then the partition keys."""
    kinds = {name: SCHEMA.field(name).type for name in columns if name not in PARTITION_KEYS}
    kinds |= dict.fromkeys(PARTITION_KEYS, STRING)
    return pa.schema([(name, TEXT if kind == STRING else kind) for name, kind in kinds.items()])


def decode(
    body: bytes,
    location: FileLocation,
    schema: pa.Schema,
    *,
    since: date | None = None,
    run_ids: Collection[str] | None = None,
) -> pa.Table:
    """Return a file's rows; a column that an older release did not write is null.

    The location gives the partition keys. Columns that are not in the schema, from schema_for, are
    not read, except for those of the filters: `since`, a day in UTC, and `run_ids`.

    Raises:
        UNREADABLE: the file is cut off, damaged or not one of the history.
    """
    metadata = pq.read_metadata(pa.BufferReader(body))
    known = set(metadata.schema.names)
    if not known >= FILTERED:
        raise pa.ArrowInvalid("not a file of the history")
    read = known & {*schema.names, *FILTERED}
    strings = [field.name for field in SCHEMA if field.name in read and field.type == STRING]
    file = pq.ParquetFile(pa.BufferReader(body), metadata=metadata, read_dictionary=strings)
    rows = file.read(columns=sorted(read), use_threads=False)
    if since is not None:
        rows = rows.filter(pc.greater_equal(rows["recorded_at"], datetime.combine(since, time())))
    if run_ids is not None:
        rows = rows.filter(pc.is_in(rows["run_id"].cast(STRING), pa.array(list(run_ids), STRING)))

    def column(field: pa.Field) -> pa.Array | pa.ChunkedArray:
        if field.name in PARTITION_KEYS:
            value = getattr(location, field.name)
            return pa.repeat(pa.scalar(value, STRING), rows.num_rows).dictionary_encode()
        if field.name in known:
            return rows[field.name].cast(field.type)
        return pa.nulls(rows.num_rows, field.type)

    return pa.table([column(field) for field in schema], schema=schema)


def concatenated(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Return several tables as one whose chunks share their dictionaries."""
    return pa.concat_tables([schema.empty_table(), *tables]).unify_dictionaries()
