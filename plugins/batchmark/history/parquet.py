"""The history's files: rows to bytes, always the same ones, and the columns asked for back."""

from __future__ import annotations

import re
from datetime import datetime, time
from io import BytesIO
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from batchmark.history.columns import PARTITION_KEYS, SCHEMA, STRING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date

    from batchmark.history.rows import Row

FOLDER = "history/"
# Most texts repeat from row to row; in memory each is there once.
TEXT = pa.dictionary(pa.int32(), STRING)
# What pyarrow raises of a file that is none, or not whole; a name that is no text is a ValueError.
UNREADABLE = (pa.ArrowException, OSError, ValueError)


class Place(NamedTuple):
    """Where a file lies: one for each run or imported file, suite and month."""

    suite: str
    month: str
    name: str

    @property
    def key(self) -> str:
        return f"{FOLDER}suite={self.suite}/month={self.month}/{self.name}.parquet"

    @classmethod
    def of(cls, key: str) -> Self | None:
        """None for a key that is none of a file of the history."""
        parts = re.fullmatch(
            rf"{FOLDER}suite=([^/]+)/month=([0-9]{{4}}-[0-9]{{2}})/([^/]+)\.parquet", key
        )
        return cls._make(parts.groups()) if parts else None


def files_of(rows: Sequence[Row], name: str) -> dict[str, bytes]:
    """What to write of a run or an imported file, by key; the same rows give the same bytes."""

    def partition(row: Row) -> tuple[str, str]:
        return row["suite"], row["month"]

    return {
        Place(suite, month, name).key: encode(pa.Table.from_pylist(list(group), schema=SCHEMA))
        for (suite, month), group in groupby(sorted(rows, key=partition), key=partition)
    }


def encode(table: pa.Table) -> bytes:
    sink = BytesIO()
    # Arrow's own schema beside it, which only pyarrow reads, would add a quarter to a small file.
    pq.write_table(table, sink, compression="zstd", store_schema=False)
    return sink.getvalue()


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """Of rows in memory: the columns asked for, then the partition keys."""
    kinds = {name: SCHEMA.field(name).type for name in columns if name not in PARTITION_KEYS}
    kinds |= dict.fromkeys(PARTITION_KEYS, STRING)
    return pa.schema([(name, TEXT if kind == STRING else kind) for name, kind in kinds.items()])


def decode(
    body: bytes,
    place: Place,
    schema: pa.Schema,
    *,
    since: date | None = None,
    run_ids: Collection[str] | None = None,
) -> pa.Table:
    """A file's rows; a column that the release which wrote it did not know is null.

    Args:
        place: where it lies, which tells the partition keys.
        schema: of the answer, as schema_of makes it; no other column is read but two.
        since: without the rows recorded before this day, in UTC.
        run_ids: without the rows of other runs.

    Raises:
        UNREADABLE: it is cut off or damaged, or no file of the history.
    """
    metadata = pq.read_metadata(pa.BufferReader(body))
    known = set(metadata.schema.names)
    if not {"recorded_at", "run_id"} <= known:
        raise pa.ArrowInvalid("no file of the history")
    read = known & {*schema.names, "recorded_at", "run_id"}
    text = [field.name for field in SCHEMA if field.name in read and field.type == STRING]
    file = pq.ParquetFile(pa.BufferReader(body), metadata=metadata, read_dictionary=text)
    rows = file.read(columns=sorted(read), use_threads=False)
    if since is not None:
        rows = rows.filter(pc.greater_equal(rows["recorded_at"], datetime.combine(since, time())))
    if run_ids is not None:
        rows = rows.filter(pc.is_in(rows["run_id"].cast(STRING), pa.array(list(run_ids), STRING)))

    def column(field: pa.Field) -> pa.Array | pa.ChunkedArray:
        if field.name in PARTITION_KEYS:
            value = getattr(place, field.name)
            return pa.repeat(pa.scalar(value, STRING), rows.num_rows).dictionary_encode()
        if field.name in known:
            return rows[field.name].cast(field.type)
        return pa.nulls(rows.num_rows, field.type)

    return pa.table([column(field) for field in schema], schema=schema)


def together(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """One table of several, whose chunks share their dictionaries."""
    return pa.concat_tables([schema.empty_table(), *tables]).unify_dictionaries()
