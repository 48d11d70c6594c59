"""One file can cost the process that reads it, and nothing else."""

import os
import time

import pyarrow as pa
import pytest

from batchmark.history import file_reader
from batchmark.history.columns import ALL_COLUMNS
from batchmark.history.file_reader import FileReader
from batchmark.history.parquet import FileLocation, decode, schema_for
from benchmarks.memory.hostile_history import parquet, rows, understated

PLACE = FileLocation("blog", "2026-11", "file")
SCHEMA = schema_for(ALL_COLUMNS)


def obey(body, _location):
    match body.split():
        case [b"exit"]:
            os._exit(0)
        case [b"sleep"]:
            time.sleep(600)
        case [b"take", megabytes]:
            pa.allocate_buffer(int(megabytes) * 10**6)
        case [b"raise"]:
            raise pa.ArrowInvalid("not a file of the history")
    return pa.table({"process": [os.getpid()]})


def process_of(table):
    return table["process"][0].as_py()


def test_files_are_read_in_one_process_of_their_own_that_ends_with_the_reader():
    with FileReader(obey) as reader:
        first, second = (process_of(reader.read(b"", PLACE)) for _ in range(2))
    assert first == second != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


@pytest.mark.parametrize("order", [b"exit", b"sleep", b"take 300", b"take 1500"])
def test_a_file_that_ends_its_process_costs_itself_alone(order, monkeypatch):
    pa.allocate_buffer(1)  # from here on, pyarrow's pool has reserved memory
    with FileReader(obey) as reader:
        before = process_of(reader.read(b"take 100", PLACE))
        with monkeypatch.context() as patch:
            if order == b"sleep":
                patch.setattr(file_reader, "MOST_SECONDS", 0.1)
            with pytest.raises(pa.ArrowInvalid, match=r"than 252 MB .* or ends the process"):
                reader.read(order, PLACE)
        assert process_of(reader.read(b"take 100", PLACE)) != before


def test_what_is_wrong_with_a_file_is_said():
    with FileReader(obey) as reader, pytest.raises(pa.ArrowInvalid, match=r"^not a file of the"):
        reader.read(b"raise", PLACE)


def test_a_file_that_understates_its_size_is_refused_before_it_takes_memory(monkeypatch):
    monkeypatch.setattr(file_reader, "MOST_MEMORY_BYTES", 30 * 10**6)
    good, lying = parquet(rows(1)), understated(parquet(rows(1, text="x" * 4 * 10**7)))
    with FileReader(lambda body, place: decode(body, place, SCHEMA)) as reader:
        with pytest.raises(pa.ArrowInvalid, match="more than 30 MB"):
            reader.read(lying, PLACE)
        assert reader.read(good, PLACE).equals(decode(good, PLACE, SCHEMA))


def test_elsewhere_than_on_linux_files_are_read_in_the_process_itself(monkeypatch):
    monkeypatch.setattr(file_reader.sys, "platform", "darwin")
    with FileReader(obey) as reader:
        assert process_of(reader.read(b"", PLACE)) == os.getpid()
