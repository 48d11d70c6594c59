"""A container's output: what a stream leaves out, streams that break, frames as lines."""

from types import SimpleNamespace

import pytest
from urllib3.exceptions import ProtocolError

from local_cloud.batch.running.container_output import ContainerOutput, lines
from local_cloud.batch.running.log_stream import MAX_EVENT_BYTES

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
