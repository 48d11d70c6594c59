"""The output of a process or a container, as events of a log."""

import os
import sqlite3
import tracemalloc
from contextlib import closing
from types import SimpleNamespace

import pytest
from moto.logs.models import LogsBackend
from urllib3.exceptions import ProtocolError

from local_cloud.batch.running.container_output import ContainerOutput, lines
from local_cloud.batch.running.log_stream import MAX_EVENT_BYTES, LogStream, LossyLogStream
from local_cloud.batch.running.process_runtime import (
    PIPE_BYTES,
    ContainerProcess,
    fresh_copy,
    lines_of,
)
from local_cloud.gaps import logs
from tests.stand_ins.failing_calls import failing


@pytest.fixture
def pipe():
    read, write = os.pipe()
    with closing(os.fdopen(read, "rb")) as output, closing(os.fdopen(write, "wb", 0)) as program:
        yield output, program


def test_what_is_there_is_one_list_of_lines(pipe):
    output, program = pipe
    found = lines_of(output)
    program.write(b"one\n\ntwo\r\nhalf of ")
    assert next(found) == [b"one\n", b"\n", b"two\r\n"]
    program.write(b"three\nno end")
    assert next(found) == [b"half of three\n"]
    program.close()
    assert list(found) == [[b"no end"]]


def test_a_line_too_long_for_an_event_is_several(tmp_path):
    file = tmp_path / "output"
    for length in (PIPE_BYTES, MAX_EVENT_BYTES, MAX_EVENT_BYTES + 1, 3 * MAX_EVENT_BYTES):
        file.write_bytes(b"x" * length + b"\nlast\n")
        with file.open("rb") as output:
            lines = [line for some in lines_of(output) for line in some]
        assert b"".join(lines) == file.read_bytes()
        assert {len(line) for line in lines[:-2]} <= {MAX_EVENT_BYTES}
        assert lines[-1] == b"last\n"


@pytest.fixture
def backend(logs_on_disk):
    return LogsBackend("us-east-1", "123456789012")


@pytest.fixture
def stream(backend):
    made = LogStream(backend, "group", "name")
    made.create()
    return made


def in_moto(stream):
    return stream.backend.groups["group"].streams["name"]


def messages(stream):
    return [event.message for event in in_moto(stream).events]


def test_a_half_line_of_one_output_never_sticks_to_the_others(stream, tmp_path):
    script = "printf 'BATCHMARK_'; printf '30 %%|###' >&2; echo JOB over"
    process = ContainerProcess(["sh", "-c", script], os.environ, tmp_path, stream)
    assert process.wait().code == 0
    assert sorted(messages(stream)) == ["30 %|###", "BATCHMARK_JOB over"]


@pytest.mark.parametrize(
    ("first", "last", "kept"),
    [(0, 0, "1234567"), (3, 0, "4567"), (0, 2, "12345"), (3, 3, "4"), (9, 0, ""), (0, 9, "")],
)
def test_a_lossy_stream_never_gets_its_first_and_last_lines(backend, first, last, kept):
    stream = LossyLogStream(backend, "group", "name", first=first, last=last)
    stream.create()
    stream.write(b"1\n", b"\n", b"2\n")
    stream.write(b"3\n")
    stream.write(b"4\n", b"5\n", b"6\n", b"7\n")
    assert "".join(messages(stream)) == kept


def test_a_stream_has_no_empty_events_and_takes_lines_of_a_deleted_group(stream):
    stream.write(b"one\r\n", b"\n", b"\xff two\n", written_at=None)
    assert messages(stream) == ["one", "\N{REPLACEMENT CHARACTER} two"]
    assert in_moto(stream).stored_bytes == 8
    stream.clear()
    assert messages(stream) == []
    stream.backend.delete_log_group("group")
    stream.write(b"lost\n")


def test_a_log_is_on_disk_and_never_in_memory_as_a_whole(stream):
    """However large: written, read page by page, searched and described."""
    lines = [b"x" * 4000 + b"\n"] * 16
    calls, most = 200, 6 * 2**20  # of 12.8 MB, and as much by PutLogEvents
    sent = [{"timestamp": 1000, "message": "x" * 4000}] * len(lines)
    tracemalloc.start()
    try:
        moto, events, token, count = in_moto(stream), lines, None, 0
        for _ in range(calls):
            stream.write(*lines)
            moto.put_log_events(sent)
        while events:
            events, _, token = moto.get_log_events(None, None, None, token, True)
            count += len(events)
        found, _, _ = moto.log_group.filter_log_events("", [], 0, 0, None, None, "?y", False)
        moto.to_describe_dict()
        listed = sum(1 for _ in moto.events)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (count, listed, found) == (2 * calls * len(lines), 2 * calls * len(lines), [])
    assert peak < most


def test_lines_that_find_no_room_on_disk_are_lost_and_end_no_job(stream, monkeypatch, caplog):
    full = sqlite3.OperationalError("database or disk is full")
    monkeypatch.setattr(logs, "put", failing(full))
    stream.write(b"one\n")
    assert caplog.messages == ["some lines of the log name were lost: database or disk is full"]


def test_a_fresh_copy_has_its_own_files_and_links_to_the_same_others(tmp_path):
    folder, beside = tmp_path / "job", tmp_path / "data"
    for each in (beside, folder / "in" / ".venv"):
        each.mkdir(parents=True)
    (beside / "set").write_text("data")
    (folder / "in" / "file").write_text("before")
    (folder / "in" / ".venv" / "pyvenv.cfg").touch()
    (folder / "in" / "out").symlink_to("../../data")
    (folder / "inside").symlink_to("in/file")
    (folder / "nowhere").symlink_to("gone")
    os.mkfifo(folder / "pipe")
    with fresh_copy(folder) as copy:
        assert (copy / "in" / "out" / "set").read_text() == "data"
        assert (copy / "in" / ".venv").samefile(folder / "in" / ".venv")
        (copy / "inside").write_text("after")
        assert (copy / "in" / "file").read_text() == "after"
        assert os.readlink(copy / "nowhere") == "gone"
        assert {path.name for path in copy.iterdir()} == {"in", "inside", "nowhere"}
    assert not copy.exists()
    assert (folder / "in" / "file").read_text() == "before"
    assert (folder / "in" / ".venv" / "pyvenv.cfg").is_file()


FIRST = b"2026-11-22T11:18:53.137168881Z "
SECOND = b"2026-11-22T11:18:54.000000000Z "
FIRST_MS, SECOND_MS = 1795346333137, 1795346334000


class Engine:
    """Serves a log, and of a stream that follows it `streamed` frames only, then `error`."""

    def __init__(self, log, streamed, error=None):
        self.log, self.streamed, self.error = log, streamed, error

    def logs(self, *, follow, tail=None, **_):
        if not follow:
            yield from self.log[-tail:] if tail else self.log
            return
        yield from self.log[: self.streamed]
        if self.error:
            raise self.error


def copied(engine):
    written = []
    log_stream = SimpleNamespace(
        write=lambda line, *, written_at: written.append((line, written_at))
    )
    output = ContainerOutput(engine, "stdout", log_stream)
    output.start()
    output.finish()
    return written


LOG = [FIRST + b"same\n", FIRST + b"same\n", SECOND + b"end\n"]
WHOLE = [(b"same\n", FIRST_MS), (b"same\n", FIRST_MS), (b"end\n", SECOND_MS)]


@pytest.mark.parametrize(
    ("streamed", "error"), [*((n, None) for n in range(4)), (1, ProtocolError("0 bytes read"))]
)
def test_a_stream_that_ends_early_or_breaks_off_costs_no_line(streamed, error, caplog):
    """Docker ended the stream of a container that had just exited without a line, once.

    docker-py reads a stream below requests, whose errors are not passed on as its own.
    """
    assert copied(Engine(LOG, streamed, error)) == WHOLE
    assert caplog.messages == ([f"a job's output was interrupted: {error}"] if error else [])


def test_a_log_that_cannot_be_read_is_a_warning(caplog):
    def logs(**_):
        raise ProtocolError("Connection broken")
        yield

    assert copied(SimpleNamespace(logs=logs)) == []
    assert caplog.messages[-1] == "the end of a job's output was lost: Connection broken"


class Reader:
    """A thread that copies so many frames, one while it is waited for, and then hangs or ends."""

    def __init__(self, output, frames, *, hangs):
        self.output, self.left, self.hangs = output, frames, hangs

    def is_alive(self):
        return self.left > 0 or self.hangs

    def join(self, _):
        if self.left:
            self.left -= 1
            self.output._copied += 1


@pytest.mark.parametrize(
    ("hangs", "told"), [(False, []), (True, ["no more output arrived within 60 s"])]
)
def test_the_rest_of_a_long_log_is_waited_for_while_it_comes(hangs, told, caplog):
    output = ContainerOutput(Engine([], 0), "stdout", SimpleNamespace())
    output._reader = Reader(output, 3, hangs=hangs)
    output.finish()
    assert output._reader.left == 0
    assert [message.rpartition(": ")[2] for message in caplog.messages] == told


LONG = b"a" * 16_384


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([FIRST + b"a b\n", SECOND + b"\n"], [(FIRST_MS, b"a b\n"), (SECOND_MS, b"\n")]),
        ([FIRST + LONG, SECOND + b"b\n"], [(FIRST_MS, LONG + b"b\n")]),
        ([FIRST + b"end"], [(FIRST_MS, b"end")]),
        ([], []),
    ],
    ids=["a line each", "parts of one line", "no newline at the end", "nothing"],
)
def test_frames_become_lines_with_their_times(frames, expected):
    assert list(lines(frames)) == expected


def test_a_line_longer_than_an_event_is_split():
    part = b"x" * 100_000
    cut = [line for _, line in lines([FIRST + part] * 6 + [FIRST + b"\n"])]
    assert [len(line) for line in cut] == [MAX_EVENT_BYTES, MAX_EVENT_BYTES, 75_765]
