"""Containers of an engine: their options, those of an earlier server, and signals that fail."""

import gc
import logging
from dataclasses import replace
from types import SimpleNamespace

import docker
import pytest
from docker.errors import APIError, NotFound
from docker.models.containers import _create_container_args
from docker.types import DeviceRequest, Ulimit
from requests.exceptions import ConnectionError as NoConnection
from requests.exceptions import ReadTimeout

from local_cloud.batch.jobs.container import merge
from local_cloud.batch.running.docker_container import DockerContainer
from local_cloud.batch.running.docker_options import create_options
from local_cloud.batch.running.docker_runtime import DockerRuntime
from local_cloud.batch.running.runtime import Exit, RuntimeUnavailableError, StartError
from tests.stand_ins.local_batch import URL, requirements
from tests.unit.local_cloud.conftest import SETTINGS

MIB = 2**20


def options(properties=None, *, gpu_ids=(), engine_has_gpus=False, vcpus="2", memory="512"):
    needs = requirements(VCPU=vcpus, MEMORY=memory)
    container = merge({"resourceRequirements": needs, **(properties or {})}, {}, {})
    return create_options(container, gpu_ids, engine_has_gpus=engine_has_gpus)


def test_defaults_with_the_images_own_command():
    given = options()
    assert given == {
        "mem_limit": 512 * MIB,
        "memswap_limit": 512 * MIB,
        "cpu_shares": 2048,
        "privileged": False,
        "read_only": False,
        "init": False,
        "tmpfs": {},
        "devices": [],
        "ulimits": [],
        "volumes": [],
        "log_config": {"Type": "json-file", "Config": {}},
        "use_config_proxy": False,
    }


@pytest.mark.parametrize(("vcpus", "shares"), [("1", 1024), ("0.25", 256), ("0.001", 2)])
def test_a_vcpu_is_1024_shares_and_two_are_the_least(vcpus, shares):
    assert options(vcpus=vcpus)["cpu_shares"] == shares


@pytest.mark.parametrize(
    ("parameters", "swap_mib", "swappiness"),
    [
        ({}, 0, None),
        ({"maxSwap": 0}, 0, None),
        ({"maxSwap": 100}, 100, None),
        ({"maxSwap": 100, "swappiness": 0}, 100, 0),
        ({"swappiness": 60}, 0, None),  # AWS: needs maxSwap
    ],
)
def test_swap_is_given_only_if_requested(parameters, swap_mib, swappiness):
    given = options({"linuxParameters": parameters})
    assert given["mem_limit"] == 512 * MIB
    assert given["memswap_limit"] == (512 + swap_mib) * MIB
    assert given.get("mem_swappiness") == swappiness


def mounts(*mount_points, volumes=({"name": "data", "host": {"sourcePath": "/data"}},)):
    return options({"volumes": volumes, "mountPoints": mount_points})["volumes"]


def test_volumes_are_folders_of_the_engine_or_anonymous():
    assert mounts(
        {"sourceVolume": "data", "containerPath": "/in", "readOnly": True},
        {"sourceVolume": "data", "containerPath": "/out"},
    ) == ["/data:/in:ro", "/data:/out:rw"]
    fresh = {"sourceVolume": "scratch", "containerPath": "/scratch"}
    assert mounts(fresh, volumes=[{"name": "scratch"}]) == ["/scratch"]
    assert mounts(fresh, volumes=[{"name": "scratch", "host": {}}]) == ["/scratch"]


def test_a_hosts_file_system_is_where_its_user_data_mounts_it(tmp_path):
    points = [
        {"sourceVolume": name, "containerPath": f"/{name}", "readOnly": name == "below"}
        for name in ("all", "below", "other")
    ]
    sources = {"all": "/fsx", "below": "/fsx/images", "other": "/scratch"}
    volumes = [{"name": name, "host": {"sourcePath": path}} for name, path in sources.items()]
    container = merge({"volumes": volumes, "mountPoints": points}, {}, {})
    given = create_options(container, (), engine_has_gpus=False, file_system=tmp_path)
    assert given["volumes"] == [
        f"{tmp_path}:/all:rw",
        f"{tmp_path}/images:/below:ro",
        "/scratch:/other:rw",
    ]


def test_an_unknown_or_unsupported_volume_is_refused():
    with pytest.raises(ValueError, match=r"volume 'dato', but volumes defines only \['data'\]"):
        mounts({"sourceVolume": "dato", "containerPath": "/in"})
    efs = {"name": "shared", "efsVolumeConfiguration": {"fileSystemId": "fs-1"}}
    with pytest.raises(ValueError, match="'shared' is on EFS"):
        mounts({"sourceVolume": "shared", "containerPath": "/in"}, volumes=[efs])


def test_gpus_are_requested_by_their_ids_where_the_engine_has_any():
    asked = options(gpu_ids=("1", "3"), engine_has_gpus=True)["device_requests"]
    assert asked == [DeviceRequest(device_ids=["1", "3"], capabilities=[["gpu"]])]
    assert "device_requests" not in options(gpu_ids=("1",), engine_has_gpus=False)
    assert "device_requests" not in options(engine_has_gpus=True)


def test_all_options_and_that_docker_py_takes_them():
    properties = {
        "command": ["true"],
        "user": "10001:10001",
        "privileged": True,
        "readonlyRootFilesystem": True,
        "ulimits": [{"name": "nofile", "softLimit": 10, "hardLimit": 20}],
        "volumes": [{"name": "data", "host": {"sourcePath": "/data"}}],
        "mountPoints": [{"sourceVolume": "data", "containerPath": "/in", "readOnly": True}],
        "linuxParameters": {
            "initProcessEnabled": True,
            "sharedMemorySize": 64,
            "maxSwap": 1,
            "swappiness": 1,
            "tmpfs": [
                {"containerPath": "/tmp", "size": 8, "mountOptions": ["rw", "exec"]},
                {"containerPath": "/run", "size": 1},
            ],
            "devices": [
                {"hostPath": "/dev/fuse"},
                {"hostPath": "/dev/a", "containerPath": "/dev/b", "permissions": ["READ", "WRITE"]},
            ],
        },
    }
    given = options(properties, gpu_ids=("0",), engine_has_gpus=True)
    assert given["user"] == "10001:10001"
    assert given["privileged"] is given["read_only"] is given["init"] is True
    assert given["ulimits"] == [Ulimit(name="nofile", soft=10, hard=20)]
    assert given["shm_size"] == 64 * MIB
    assert given["tmpfs"] == {"/tmp": "size=8m,rw,exec", "/run": "size=1m"}
    assert given["devices"] == ["/dev/fuse:/dev/fuse:rwm", "/dev/a:/dev/b:rw"]
    sent = _create_container_args({"image": "image", "version": "1.45", **given})
    host = sent["host_config"]
    assert (host["Memory"], host["MemorySwap"]) == (512 * MIB, 513 * MIB)
    assert host["Binds"] == ["/data:/in:ro"]
    assert host["Devices"][0]["PathOnHost"] == "/dev/fuse"
    assert sent["command"] == ["true"]


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
