"""An empty Batch of the local cloud, and applications that real clients reach."""

import threading
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from werkzeug.serving import make_server

from local_cloud.faults.kinds import FAULT
from local_cloud.faults.under_way import UNDER_WAY, Active
from local_cloud.gaps import log_events, logs
from local_cloud.server import QuietRequestHandler
from local_cloud.settings import Settings
from tests.stand_ins.local_batch import URL, local_batch

SETTINGS = Settings(URL, URL, gpus=0, vcpus=1, memory_mib=64, job_dir=Path())


@pytest.fixture
def batch():
    with local_batch() as made:
        yield made


@pytest.fixture
def queue(batch):
    """A queue with an environment, and a definition for its jobs."""
    batch.environment()
    batch.define()
    return batch.queue()


@pytest.fixture
def begin():
    """Begins a fault; all are over with the test."""

    def begun(kind, **fields):
        fault = FAULT.validate_python({"kind": kind, **fields})
        active = UNDER_WAY[str(len(UNDER_WAY))] = Active(str(len(UNDER_WAY)), fault)
        return active

    yield begun
    UNDER_WAY.clear()


@pytest.fixture
def logs_on_disk(monkeypatch):
    """moto's logs as the server has them."""
    for owner, name, ours in logs.PATCHES:
        monkeypatch.setattr(owner, name, ours, raising=False)
    monkeypatch.setattr(log_events, "_database", [])


def of_nodes(container=None, targets="0:", **changes):
    """The definition of a job of two nodes."""
    container = {"image": "image", "vcpus": 1, "memory": 4} | (container or {})
    ranges = [{"targetNodes": targets, "container": container}]
    nodes = {"numNodes": 2, "mainNode": 0, "nodeRangeProperties": ranges, **changes}
    return {"jobDefinitionName": "definition", "type": "multinode", "nodeProperties": nodes}


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


@contextmanager
def clients_of(url, usual_secret):
    """Makes boto3's clients of an address, each once: that takes 40 ms."""
    opened = []

    @cache
    def make(service, secret=usual_secret, key="anybody", token=None, **config):
        session = boto3.Session(key, secret, token, region_name="us-east-1")
        settings = Config(retries={"total_max_attempts": 1}, **config)
        opened.append(session.client(service, endpoint_url=url, config=settings))
        return opened[-1]

    yield make
    for made in opened:
        made.close()
