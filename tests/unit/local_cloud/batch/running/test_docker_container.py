"""A job's container: signals that fail."""

import logging
from types import SimpleNamespace

import pytest
from docker.errors import APIError, NotFound
from requests.exceptions import ConnectionError as NoConnection
from requests.exceptions import ReadTimeout

from local_cloud.batch.running.docker_container import DockerContainer


@pytest.mark.parametrize(
    ("error", "is_told"),
    [
        *((error("no answer"), True) for error in (ReadTimeout, NoConnection, APIError)),
        (NotFound("gone", SimpleNamespace(status_code=404)), False),
    ],
)
def test_a_failure_to_send_a_signal_is_logged_only(error, is_told, caplog):
    def kill(*, signal):
        raise error

    container = DockerContainer(SimpleNamespace(kill=kill), log_stream=None, network=None)
    with caplog.at_level(logging.WARNING):
        container.kill()
    told = [f"could not send SIGKILL to a job: {error}"] if is_told else []
    assert caplog.messages == told
