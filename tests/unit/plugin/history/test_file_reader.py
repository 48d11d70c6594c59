"""One file can cost the process that reads it, and nothing else."""

import os
import time
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batchmark.history import file_reader
from batchmark.history.columns import ALL_COLUMNS, STRING
from batchmark.history.columns import SCHEMA as WRITTEN
from batchmark.history.file_reader import FileReader
from batchmark.history.parquet import FileLocation, decode, schema_for

PLACE = FileLocation("blog", "2026-11", "file")
SCHEMA = schema_for(ALL_COLUMNS)


def obey(body, _location):
    match body.split():
        case [b"exit"]:
            os._exit(0)
        case [b"sleep"]:
            time.sleep(3600)
        case [b"take", megabytes]:
            pa.allocate_buffer(int(megabytes) * 10**6)
        case [b"raise"]:
            raise pa.ArrowInvalid("not a history file")
    return pa.table({"process": [os.getpid()]})


def file_of(run_id):
    """A file of one row."""

    def value(field):
        if field.type != STRING:
            return pa.scalar(1).cast(field.type)
        return {"run_id": run_id, "actual_device": "cpu"}.get(field.name, "{}")

    columns = [pa.repeat(value(field), 1) for field in WRITTEN]
    written = BytesIO()
    pq.write_table(pa.table(columns, WRITTEN.names), written, compression="zstd")
    return written.getvalue()


def understated(body):
    """The file, which then says that it unpacks to 2,000 bytes."""
    size = varint(pq.read_metadata(pa.BufferReader(body)).row_group(0).total_byte_size)
    assert body.count(size) == 1
    return body.replace(size, varint(2_000, len(size)))


def varint(number, length=1):
    """A number of Thrift's compact protocol, in at least so many bytes."""
    number <<= 1  # zigzag
    groups = []
    while number or len(groups) < length:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups[:-1], groups[-1] & 0x7F])


def process_of(table):
    return table["process"][0].as_py()


def test_files_are_read_in_one_process_of_their_own_that_ends_with_the_reader(monkeypatch):
    with FileReader(obey) as reader:
        first, second = (process_of(reader.read(b"", PLACE)) for _ in range(2))
        with pytest.raises(pa.ArrowInvalid, match=r"^not a history file"):
            reader.read(b"raise", PLACE)
    assert first == second != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    monkeypatch.setattr(file_reader.sys, "platform", "darwin")  # there is no such process
    with FileReader(obey) as reader:
        assert process_of(reader.read(b"", PLACE)) == os.getpid()


@pytest.mark.parametrize("order", [b"exit", b"sleep", b"take 300", b"take 1500"])
def test_a_file_that_ends_its_process_costs_itself_alone(order, monkeypatch):
    pa.allocate_buffer(1)  # from here on, pyarrow's pool has reserved memory
    with FileReader(obey) as reader:
        before = process_of(reader.read(b"take 100", PLACE))
        with monkeypatch.context() as patch:
            if order == b"sleep":
                patch.setattr(file_reader, "MOST_SECONDS", 0.1)
            with pytest.raises(pa.ArrowInvalid, match=r"than 252 MB .* or crashes the reader"):
                reader.read(order, PLACE)
        assert process_of(reader.read(b"take 100", PLACE)) != before


def test_a_file_that_understates_its_size_is_refused_before_it_takes_memory(monkeypatch):
    monkeypatch.setattr(file_reader, "MOST_MEMORY_BYTES", 30 * 10**6)
    good, lying = file_of("run"), understated(file_of("x" * 4 * 10**7))
    with FileReader(lambda body, place: decode(body, place, SCHEMA)) as reader:
        with pytest.raises(pa.ArrowInvalid, match="more than 30 MB"):
            reader.read(lying, PLACE)
        assert reader.read(good, PLACE).equals(decode(good, PLACE, SCHEMA))
