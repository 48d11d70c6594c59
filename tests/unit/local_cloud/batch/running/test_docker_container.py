"""A job's container where the engine does not do what it is asked to."""

import logging
from types import SimpleNamespace

import pytest
from docker.errors import APIError, NotFound
from requests.exceptions import ConnectionError as NoConnection
from requests.exceptions import ReadTimeout
from urllib3.exceptions import ProtocolError

from local_cloud.batch.docker_container import DockerContainer


def container(error):
    def kill(*, signal):
        raise error

    return DockerContainer(SimpleNamespace(kill=kill), log_stream=None, network=None)


@pytest.mark.parametrize(
    "error", [ReadTimeout("no answer"), NoConnection("refused"), APIError("no answer")]
)
def test_a_signal_that_can_not_be_sent_is_told_and_stops_nobody(error, caplog):
    with caplog.at_level(logging.WARNING):
        container(error).kill()
    assert caplog.messages == [f"SIGKILL could not be sent to a job: {error}"]


def test_a_container_that_is_gone_needs_no_signal(caplog):
    container(NotFound("gone", SimpleNamespace(status_code=404))).kill()
    assert caplog.messages == []


def test_output_that_breaks_off_is_told(caplog):
    """docker-py reads a stream below requests, whose errors are not passed on as its own."""

    def logs(**_):
        raise ProtocolError("Connection broken: IncompleteRead(0 bytes read)")
        yield

    broken = DockerContainer(SimpleNamespace(logs=logs), log_stream=None, network=None)
    broken._copy_output("stdout")
    assert caplog.messages == [
        "a job's output was lost: Connection broken: IncompleteRead(0 bytes read)"
    ]
