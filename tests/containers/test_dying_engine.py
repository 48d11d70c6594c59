"""An engine that dies takes along what it ran, and nothing else."""

import signal

import pytest

from tests.containers.engine_proxy import EngineProxy
from tests.containers.jobs import FOR_EVER, containers_of, define, start
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture
def proxy(running_engine, tmp_path, monkeypatch):
    scheme, _, path = running_engine.env["DOCKER_HOST"].partition("://")
    if scheme != "unix":
        pytest.skip(f"the engine is reached by {scheme}, not by a socket of this machine")
    made = EngineProxy(path, tmp_path / "engine.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{made.path}")
    yield made
    made.die()


@pytest.fixture
def cloud(client, proxy):
    with start() as started:
        yield started
    for container in containers_of(client, started):
        container.remove(force=True)


def reason_of(job):
    assert job["status"] == "FAILED"
    return job["container"]["reason"]


def test_it_costs_the_jobs_of_that_time_alone_and_the_server_ends_without_it(cloud, proxy):
    for_ever = define(cloud, FOR_EVER)
    running = cloud.submit(for_ever)
    cloud.wait_for(running, "RUNNING")
    proxy.die()
    assert reason_of(cloud.finish(running)).startswith("CannotInspectContainerError: ")
    assert reason_of(cloud.finish(cloud.submit(for_ever))).startswith("CannotPullContainerError: ")
    assert cloud.describe(running)["status"] == "FAILED"
    proxy.come_back()
    job = cloud.finish(cloud.submit(define(cloud, "print('back')")))
    assert (job["status"], cloud.lines(job)) == ("SUCCEEDED", ["back"])

    cloud.wait_for(cloud.submit(for_ever), "RUNNING")
    proxy.die()
    cloud.process.send_signal(signal.SIGTERM)
    assert cloud.process.wait(PATIENCE_SECONDS) == 2  # containers may be left, it says so
