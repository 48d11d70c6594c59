"""Writes all columns as CSV, with one line per row."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from batchmark.core.output import cell
from batchmark.history.columns import ALL_COLUMNS, PARTITION_KEYS, SCHEMA, STRING


def write(tables: Iterable[pa.Table], path: Path) -> int:
    """Write the tables, which must have all columns, and return the number of rows written."""
    schema = pa.schema([*SCHEMA, *((name, STRING) for name in PARTITION_KEYS)])
    rows = 0
    with pa.csv.CSVWriter(path, schema) as writer:
        for table in tables:
            columns = [_cells(column) for column in table.select(ALL_COLUMNS).columns]
            writer.write_table(pa.table(columns, schema=schema))
            rows += table.num_rows
    return rows


def _cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Format a column for the file, calling `cell` only once for each distinct string."""
    if not pa.types.is_dictionary(column.type):
        return column
    chunks = [
        pa.DictionaryArray.from_arrays(
            chunk.indices, pa.array(map(cell, chunk.dictionary.to_pylist()), STRING)
        )
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, column.type).cast(STRING)
