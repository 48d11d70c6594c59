"""An empty Batch of the local cloud, and applications that real clients reach."""

import threading
from contextlib import contextmanager

import pytest
from werkzeug.serving import make_server

from local_cloud.server import QuietRequestHandler
from tests.stand_ins.local_batch import local_batch


@pytest.fixture
def batch():
    with local_batch() as made:
        yield made


@contextmanager
def over_http(app):
    """The address of an application."""
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.port}"
    server.shutdown()
    thread.join()
    server.server_close()
