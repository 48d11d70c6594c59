"""Write all columns as CSV, one line per row."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from batchmark.history.columns import ALL_COLUMNS, PARTITION_KEYS, SCHEMA, STRING


def write(tables: Iterable[pa.Table], path: Path) -> int:
    """Write tables that have all columns; return the number of their rows."""
    schema = pa.schema([*SCHEMA, *((name, STRING) for name in PARTITION_KEYS)])
    rows = 0
    with pa.csv.CSVWriter(path, schema) as writer:
        for table in tables:
            writer.write_table(table.select(ALL_COLUMNS).cast(schema))
            rows += table.num_rows
    return rows
