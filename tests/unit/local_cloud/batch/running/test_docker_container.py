"""A job's container: signals that fail, output that breaks off, frames as lines."""

import logging
from types import SimpleNamespace

import pytest
from docker.errors import APIError, NotFound
from requests.exceptions import ConnectionError as NoConnection
from requests.exceptions import ReadTimeout
from urllib3.exceptions import ProtocolError

from local_cloud.batch.running.docker_container import DockerContainer, lines
from local_cloud.batch.running.log_stream import MAX_EVENT_BYTES


def container(error):
    def kill(*, signal):
        raise error

    return DockerContainer(SimpleNamespace(kill=kill), log_stream=None, network=None)


@pytest.mark.parametrize(
    "error", [ReadTimeout("no answer"), NoConnection("refused"), APIError("no answer")]
)
def test_a_failure_to_send_a_signal_is_logged_only(error, caplog):
    with caplog.at_level(logging.WARNING):
        container(error).kill()
    assert caplog.messages == [f"SIGKILL could not be sent to a job: {error}"]


def test_a_container_that_is_gone_needs_no_signal(caplog):
    container(NotFound("gone", SimpleNamespace(status_code=404))).kill()
    assert caplog.messages == []


def test_an_error_while_reading_output_is_logged(caplog):
    """docker-py reads a stream below requests, whose errors are not passed on as its own."""

    def logs(**_):
        raise ProtocolError("Connection broken: IncompleteRead(0 bytes read)")
        yield

    broken = DockerContainer(SimpleNamespace(logs=logs), log_stream=None, network=None)
    broken._copy_output("stdout")
    assert caplog.messages == [
        "a job's output was lost: Connection broken: IncompleteRead(0 bytes read)"
    ]


FIRST = b"2026-11-22T11:18:53.137168881Z "
SECOND = b"2026-11-22T11:18:54.000000000Z "
FIRST_MS, SECOND_MS = 1795346333137, 1795346334000


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
