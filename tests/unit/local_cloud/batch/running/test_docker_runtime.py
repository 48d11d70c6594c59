"""Containers of an engine: those of an earlier server are adopted, strangers never touched."""

import gc
from dataclasses import replace
from types import SimpleNamespace

import docker
import pytest
from docker.errors import APIError

from local_cloud.batch.running.docker_runtime import DockerRuntime
from local_cloud.batch.running.runtime import Exit, RuntimeUnavailableError, StartError
from tests.stand_ins.local_batch import URL
from tests.unit.local_cloud.conftest import SETTINGS

CONTAINERS = replace(SETTINGS, jobs="containers")
OWNER = f"local-cloud.owner={URL} on the host"
STARTED, STARTED_MS = "2026-11-22T11:18:53.137168881Z", 1795346333137


# docker-py leaves the socket of its failed attempt open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_without_an_engine_there_is_no_runtime(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    message = "requires a Docker engine, but none is responding .*: start one, set DOCKER_HOST"
    with pytest.raises(RuntimeUnavailableError, match=message):
        DockerRuntime(CONTAINERS)
    gc.collect()


class Container:
    """docker-py's container: it has written two lines and ended with code 3."""

    def __init__(self, status):
        self.status = status
        self.attrs = {"State": {"StartedAt": STARTED, "OOMKilled": False}}
        self.removed = False
        self.is_gone = lambda: None

    def logs(self, *, stdout, stderr, **_):
        text = "out" if stdout else "err"
        return [f"{STARTED} {text}\n".encode()]

    def wait(self, timeout):
        return {"StatusCode": 3}

    def reload(self):
        pass

    def remove(self, *, force, v):
        self.removed = True
        self.is_gone()


class LogStream:
    """Takes lines; an earlier server has written one of them."""

    def __init__(self):
        self.lines = [b"out\n"]

    def clear(self):
        self.lines.clear()

    def write(self, line, *, written_at):
        assert written_at == STARTED_MS
        self.lines.append(line)


@pytest.fixture
def containers():
    """The engine's containers by the label that names their task."""
    return {}


@pytest.fixture
def runtime(containers, monkeypatch):
    def listed(*, filters, **options):
        assert options == {"all": True, "ignore_removed": True}
        owner, task = filters["label"]
        assert owner == OWNER
        return containers.get(task, [])

    def create(*, name):
        if any(containers.values()):
            raise APIError("in use", SimpleNamespace(status_code=409))
        return name

    engine = SimpleNamespace(info=dict, containers=SimpleNamespace(list=listed, create=create))
    monkeypatch.setattr(docker, "from_env", lambda **_: engine)
    return DockerRuntime(CONTAINERS)


def launch(log_stream):
    return SimpleNamespace(record=SimpleNamespace(task_id="t1"), log_stream=log_stream)


def test_a_job_that_was_allowed_before_a_restart_is_not_started(runtime):
    properties = {"image": "i", "volumes": [{"name": "all", "host": {"sourcePath": "/"}}]}
    asked = SimpleNamespace(container=SimpleNamespace(properties=properties))
    with pytest.raises(StartError, match=r"^CannotCreateContainerError: the volume 'all' at / "):
        runtime.start(asked)


@pytest.mark.parametrize("status", ["running", "exited"])
def test_a_started_container_is_adopted_with_its_start_log_and_end(runtime, containers, status):
    containers["local-cloud.task=t1"] = [Container(status)]
    stream = LogStream()
    adopted = runtime.adopt(launch(stream))
    assert adopted.started_at == STARTED_MS
    assert adopted.wait() == Exit(3)
    assert sorted(stream.lines) == [b"err\n", b"out\n"]
    assert not containers["local-cloud.task=t1"][0].removed


def test_a_container_that_was_only_created_is_removed_and_one_that_is_gone_not_adopted(
    runtime, containers
):
    assert runtime.adopt(launch(LogStream())) is None
    containers["local-cloud.task=t1"] = [created] = [Container("created")]
    assert runtime.adopt(launch(LogStream())) is None
    assert created.removed


def test_what_a_busy_engine_created_late_for_a_killed_server_makes_room(runtime, containers):
    containers["local-cloud.task=t1"] = [late] = [Container("created")]
    late.is_gone = containers.clear
    assert runtime._create_anew("t1", name="ecs-t1") == "ecs-t1"
    assert late.removed
