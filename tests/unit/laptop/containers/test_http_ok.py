"""containers/http_ok.sh, which asks whether a service is healthy."""

import subprocess
from pathlib import Path

import pytest

from laptop.processes import free_port
from tests.stand_ins.http import serving

SCRIPT = Path(__file__).resolve().parents[4] / "containers" / "http_ok.sh"
HEALTH = b'{"scheduler":{"status":"unhealthy"},"triggerer":{"status":"healthy","latest":null}}'


@pytest.fixture
def port():
    with serving(lambda request: (200 if request.path == "/health" else 503, HEALTH)) as server:
        yield server.server_port


def code(port, *arguments):
    words = [SCRIPT, "127.0.0.1", str(port), *arguments]
    return subprocess.run(words, capture_output=True, check=False).returncode


def test_an_answer_of_200_is_healthy(port):
    assert code(port, "/health") == 0


def test_another_status_is_unhealthy(port):
    assert code(port, "/other") != 0


def test_the_text_decides_where_one_is_given(port):
    assert code(port, "/health", '"triggerer":{"status":"healthy"') == 0
    assert code(port, "/health", '"scheduler":{"status":"healthy"') != 0
    assert code(port, "/other", '"triggerer":{"status":"healthy"') != 0


def test_a_closed_port_is_unhealthy():
    assert code(free_port(), "/health") != 0
