"""Measures the memory that a hostile file of the history takes from whoever reads it.

Each file lies in the history of one good run, and a separate process reads all columns, which forks
one more to do so: both count. Some files are refused by what they say of themselves, one by what
it takes, and others are the largest that are read.

Exits with 1 unless each read takes less than 300 MB above that of the good run alone, and finds
that run's rows. Takes about half a minute.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from batchmark.history.columns import ALL_COLUMNS, SCHEMA, STRING
from batchmark.history.parquet import MOST_BYTES, MOST_ROWS, MOST_TEXT_BYTES, FileLocation
from batchmark.history.store import HistoryStore
from benchmarks.memory import long_history
from benchmarks.memory.long_history import FOLDER, ROOT, SUITE, Bucket
from benchmarks.memory.peak import peak_mb, with_forked_mb
from benchmarks.synthetic import this_machine

CLAIMED_MB = 300


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--read", action="store_true", help=argparse.SUPPRESS)
    if parser.parse_args().read:
        print(json.dumps(read()))
        return 0
    long_history.write(1)
    alone = in_process()
    print(f"a good run alone: peak {alone['peak_mb']:.0f} MB, {alone['rows']} rows")
    path, missed = FOLDER / FileLocation(SUITE, "2026-01", "hostile").key, False
    for name, body in hostile_files():
        path.write_bytes(body)
        found = in_process()
        more = found["peak_mb"] - alone["peak_mb"]
        print(
            f"{name}: {len(body) / 1024:,.0f} KiB, {'refused' if found['refused'] else 'read'}, "
            f"{more:.0f} MB more"
        )
        missed |= more >= CLAIMED_MB or found["good_rows"] != alone["rows"]
    shutil.rmtree(FOLDER)
    print(f"{this_machine()}, pyarrow {pa.__version__}; MB are 10^6 bytes of resident memory")
    if missed:
        print(f"MISSED: a read takes {CLAIMED_MB} MB more, or loses rows of the good run")
    return int(missed)


def hostile_files() -> Iterator[tuple[str, bytes]]:
    yield "10,000,000 rows of one value", parquet(rows(MOST_ROWS), times=10**7 // MOST_ROWS)
    yield f"{MOST_ROWS:,} rows of one value", parquet(rows(MOST_ROWS))
    yield "one text of 200 MB", parquet(rows(1, text="x" * 2 * 10**8))
    yield "one text of 200 MB, stated as 2 kB", understated(parquet(rows(1, text="x" * 2 * 10**8)))
    yield f"one text of 1 MB in {MOST_ROWS:,} rows", parquet(rows(MOST_ROWS, text="x" * 10**6))
    size = MOST_TEXT_BYTES // MOST_ROWS
    yield "the longest text in all rows", parquet(rows(MOST_ROWS, text="x" * size))
    count = min(MOST_ROWS, MOST_BYTES // 8 // len(numbers()) * 8 // 10)
    yield f"{count:,} rows of all numbers different", parquet(rows(count, different=True))
    yield "a row group for each of 1,000 rows", parquet(rows(1), times=1_000)
    yield "a row group for each of 60 rows", parquet(rows(1), times=60)
    yield "a gigabyte of nothing", bytes(10**9)


def numbers() -> list[str]:
    return [field.name for field in SCHEMA if field.type in (pa.float64(), pa.int64())]


def rows(count: int, *, text: str = "{}", different: bool = False) -> pa.Table:
    rng = np.random.default_rng(1)

    def column(field: pa.Field) -> Any:
        if field.name == "run_id" and text != "{}":
            return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), [text])
        if field.type == STRING:
            value = "cpu" if field.name == "actual_device" else "{}"
            return pa.repeat(value, count).dictionary_encode()
        if different and field.name in numbers():
            return pa.array(rng.integers(1, 2**62, count), pa.int64()).cast(field.type, safe=False)
        return pa.repeat(pa.scalar(1).cast(field.type), count)

    return pa.table([column(field) for field in SCHEMA], names=SCHEMA.names)


def parquet(table: pa.Table, times: int = 1) -> bytes:
    written = BytesIO()
    with pq.ParquetWriter(written, table.schema, compression="zstd", store_schema=False) as writer:
        for _ in range(times):
            writer.write_table(table)
    return written.getvalue()


def understated(body: bytes) -> bytes:
    """Return a file of one row group which says that it unpacks to 2,000 bytes."""
    size = pq.read_metadata(pa.BufferReader(body)).row_group(0).total_byte_size
    stated = _varint(size, len(_varint(size)))
    if body.count(stated) != 1:
        raise ValueError(f"the size {size} stands in the file {body.count(stated)} times, not once")
    return body.replace(stated, _varint(2_000, len(stated)))


def _varint(number: int, length: int = 1) -> bytes:
    """Return a number of Thrift's compact protocol, in at least so many bytes."""
    number <<= 1  # zigzag
    groups = []
    while number or len(groups) < length:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups[:-1], groups[-1] & 0x7F])


def in_process() -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.memory.hostile_history", "--read"]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ended.stdout)


def read() -> dict[str, Any]:
    history = HistoryStore(Bucket(FOLDER), "results")
    before_mb = peak_mb()
    table = history.read(ALL_COLUMNS)
    jobs = table["job_id"].combine_chunks()
    good = sum(1 for number in jobs.to_pylist() if number and "-8000-" in number)
    return {
        "rows": table.num_rows,
        "good_rows": good,
        "refused": bool(history.unreadable),
        "peak_mb": with_forked_mb(before_mb),
    }


if __name__ == "__main__":
    sys.exit(main())
