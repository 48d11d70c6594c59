"""A job's container: signals that fail."""

import logging
from types import SimpleNamespace

import pytest
from docker.errors import APIError, NotFound
from requests.exceptions import ConnectionError as NoConnection
from requests.exceptions import ReadTimeout

from local_cloud.batch.running.docker_container import DockerContainer


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
    assert caplog.messages == [f"could not send SIGKILL to a job: {error}"]


def test_a_container_that_is_gone_needs_no_signal(caplog):
    container(NotFound("gone", SimpleNamespace(status_code=404))).kill()
    assert caplog.messages == []
