"""containers/http_ok.sh, which asks whether a service is healthy."""

import subprocess

import pytest

from laptop.processes import free_port
from tests.paths import ROOT
from tests.stand_ins.http import serving

SCRIPT = ROOT / "containers" / "http_ok.sh"
HEALTH = b'{"scheduler":{"status":"unhealthy"},"triggerer":{"status":"healthy","latest":null}}'


@pytest.fixture
def port():
    with serving(lambda request: (200 if request.path == "/health" else 503, HEALTH)) as server:
        yield server.server_port


def code(port, *arguments):
    words = [SCRIPT, "127.0.0.1", str(port), *arguments]
    return subprocess.run(words, capture_output=True, check=False).returncode


@pytest.mark.parametrize(
    ("arguments", "healthy"),
    [
        (["/health"], True),
        (["/other"], False),
        (["/health", '"triggerer":{"status":"healthy"'], True),
        (["/health", '"scheduler":{"status":"healthy"'], False),
        (["/other", '"triggerer":{"status":"healthy"'], False),
    ],
)
def test_status_and_text_where_one_is_given_decide(port, arguments, healthy):
    assert (code(port, *arguments) == 0) is healthy
    assert code(free_port(), *arguments) != 0, "a closed port is unhealthy"
