"""Encodes and decodes the history's Parquet files."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Sequence
from datetime import date, datetime, time
from io import BytesIO
from itertools import groupby
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from batchmark.history.columns import ALL_COLUMNS, DOUBLE, PARTITION_KEYS, SCHEMA, STRING, TIMESTAMP
from batchmark.history.rows import Row
from batchmark_job.result.document import Device
from batchmark_job.result.values import EARLIEST, END

FOLDER = "history/"
FILTERED = {"recorded_at", "run_id"}
DOUBLES = {field.name for field in SCHEMA if field.type == DOUBLE}
# Every row of every release has these.
IN_EVERY_ROW = {
    *FILTERED,
    *("workload", "parameters", "dtype", "status", "target", "cpu_model"),
    *("requested_device", "actual_device"),
}
# Most strings repeat from row to row: dictionaries keep each in memory once.
TEXT = pa.dictionary(pa.int32(), STRING)
# A file of the history holds a run's rows of a suite: hundreds, below 1 MB. Compressed, a file of
# these sizes may be tiny, so its own statement is checked before it is read.
MOST_BYTES = 16 * 2**20
MOST_METADATA_BYTES = 2**20  # some 10 KB for each of its row groups
MOST_ROWS = 50_000
MOST_UNCOMPRESSED_BYTES = 32 * 2**20
MOST_TEXT_BYTES = 32 * 2**20  # of a column, each row's text counted
LARGEST_FIGURE = 1e40  # a document's bounds allow a rate of 2**63 / 1e-12 a second


class FileLocation(NamedTuple):
    """A history file's location; there is one file per suite, month, and run or imported file."""

    suite: str
    month: str
    name: str

    @property
    def key(self) -> str:
        return f"{FOLDER}suite={self.suite}/month={self.month}/{self.name}.parquet"

    @classmethod
    def of(cls, key: str) -> Self | None:
        """Parse a key; return None if it isn't a history file's key."""
        parts = re.fullmatch(
            rf"{FOLDER}suite=([^/]+)/month=([0-9]{{4}}-[0-9]{{2}})/([^/]+)\.parquet", key
        )
        return cls._make(parts.groups()) if parts else None


def encode_rows(rows: Sequence[Row], name: str) -> dict[str, bytes]:
    """Encode a run's or import's rows as files, by key; equal rows always yield identical bytes.

    Raises:
        Exception: the rows don't fit SCHEMA, or `decode` can't read the files. Any class can occur.
    """

    def partition(row: Row) -> tuple[str, str]:
        return row["suite"], row["month"]

    files = {}
    for (suite, month), group in groupby(sorted(rows, key=partition), key=partition):
        location = FileLocation(suite, month, name)
        body = encode(pa.Table.from_pylist(list(group), schema=SCHEMA))
        decode(body, location, schema_for(ALL_COLUMNS))
        files[location.key] = body
    return files


def encode(table: pa.Table) -> bytes:
    sink = BytesIO()
    # Arrow's own schema, which only pyarrow reads, would add a quarter to a small file.
    pq.write_table(table, sink, compression="zstd", store_schema=False)
    return sink.getvalue()


def schema_for(columns: Sequence[str]) -> pa.Schema:
    """Return the schema for rows in memory: the given columns, then the partition keys."""
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
    """Return a file's rows; columns that an older release did not write are null.

    The location gives the partition keys. Only the schema's columns (see `schema_for`) are read,
    plus those needed by the filters: `since`, a day in UTC, and `run_ids`.

    Raises:
        Exception: the file is damaged, too large or not a history file. Any class is possible.
    """
    # A file ends with the length of its metadata and four letters.
    if (length := int.from_bytes(body[-8:-4], "little")) > MOST_METADATA_BYTES:
        raise pa.ArrowInvalid(
            f"it has {length} bytes of metadata, more than the limit of {MOST_METADATA_BYTES}"
        )
    metadata = pq.read_metadata(pa.BufferReader(body))
    known = _flat_columns(metadata)
    read = known & {*schema.names, *FILTERED}
    _check_size(metadata)
    strings = [field.name for field in SCHEMA if field.name in read and field.type == STRING]
    file = pq.ParquetFile(pa.BufferReader(body), metadata=metadata, read_dictionary=strings)
    rows = file.read(columns=sorted(read), use_threads=False)
    for name in strings:
        _check_text(name, rows[name])
    _check_rows(rows)
    _check_figures(rows)
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


def _flat_columns(metadata: pq.FileMetaData) -> set[str]:
    """Return the names of a file's columns, all of which must be flat.

    Raises:
        ArrowInvalid: the file is not a history file.
    """
    names = metadata.schema.to_arrow_schema().names
    if names != metadata.schema.names or len({*names}) < len(names) or not {*names} >= IN_EVERY_ROW:
        raise pa.ArrowInvalid(
            "it is not a history file: it contains nested or duplicate columns, or lacks "
            "required ones"
        )
    return {*names}


def _check_size(metadata: pq.FileMetaData) -> None:
    """Reject a file that, according to its own metadata, would take too much memory.

    Column sizes are not read: pyarrow aborts the process if a column contradicts the schema.
    """
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    count = max(metadata.num_rows, sum(group.num_rows for group in groups))
    if count > MOST_ROWS:
        raise pa.ArrowInvalid(f"it has {count} rows, more than the limit of {MOST_ROWS}")
    size = sum(group.total_byte_size for group in groups)
    if size > MOST_UNCOMPRESSED_BYTES:
        raise pa.ArrowInvalid(
            f"it unpacks to {size} bytes, more than the limit of {MOST_UNCOMPRESSED_BYTES}"
        )


def _check_text(name: str, column: pa.ChunkedArray) -> None:
    """Reject a column that isn't text or would expand to too many bytes."""
    column.validate(full=True)
    size = sum(
        pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0
        for chunk in column.chunks
        if chunk.dictionary.nbytes * len(chunk) > MOST_TEXT_BYTES  # else it can't be that much
    )
    if size > MOST_TEXT_BYTES:
        raise pa.ArrowInvalid(
            f"{name} has {size} bytes of text, more than the limit of {MOST_TEXT_BYTES}"
        )


def _check_rows(rows: pa.Table) -> None:
    """Reject rows that lack a required value or have an invalid time, device or parameters."""
    for name in sorted(IN_EVERY_ROW & {*rows.column_names}):
        if missing := rows[name].null_count:
            raise pa.ArrowInvalid(f"{missing} rows have no {name}")
    earliest, end = (
        pa.scalar(moment.replace(tzinfo=None), TIMESTAMP) for moment in (EARLIEST, END)
    )
    recorded = rows["recorded_at"].cast(TIMESTAMP)
    if pc.any(pc.or_(pc.less(recorded, earliest), pc.greater_equal(recorded, end))).as_py():
        raise pa.ArrowInvalid(f"some rows are dated before {EARLIEST:%Y}, or in {END:%Y} or later")
    if "actual_device" in rows.column_names:
        for device in {*rows["actual_device"].unique().to_pylist()} - {*Device}:
            raise pa.ArrowInvalid(f"the device {device!r:.100} is not one of {', '.join(Device)}")
    if "parameters" in rows.column_names:
        for chunk in rows["parameters"].chunks:
            for text in chunk.dictionary.to_pylist():
                if not isinstance(json.loads(text), dict):
                    raise pa.ArrowInvalid(f"the parameters {text!r:.100} are not a JSON object")


def _check_figures(rows: pa.Table) -> None:
    for name in DOUBLES & {*rows.column_names}:
        most = sys.float_info.max if name == "relative_error" else LARGEST_FIGURE
        if pc.all(pc.less_equal(pc.abs(rows[name]), most)).as_py() is False:
            raise pa.ArrowInvalid(
                f"{name} contains a value that is not finite or exceeds ±{most:g}"
            )


def concatenated(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Concatenate tables so that all chunks share their dictionaries."""
    return pa.concat_tables([schema.empty_table(), *tables]).unify_dictionaries()
