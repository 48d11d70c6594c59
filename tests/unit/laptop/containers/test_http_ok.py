"""containers/http_ok.sh, which asks whether a service is healthy."""

import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from laptop.processes import free_port

SCRIPT = Path(__file__).resolve().parents[4] / "containers" / "http_ok.sh"
HEALTH = b'{"scheduler":{"status":"unhealthy"},"triggerer":{"status":"healthy","latest":null}}'


class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 503)
        self.end_headers()
        self.wfile.write(HEALTH)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def port():
    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


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
