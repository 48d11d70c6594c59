"""What is asked of Docker first; a script on the PATH answers as Docker would."""

import os
import stat
from pathlib import Path

import pytest

from laptop.containers import lifecycle
from laptop.containers.compose import Compose, Deployment, engine_socket
from laptop.containers.lifecycle import compose_for
from laptop.errors import LaptopError
from laptop.processes import free_port
from laptop.session import Clock
from tests.builders.files import program

DOCKER = """
echo "$COMPOSE_PROFILES: $*" >>"$(dirname "$0")/asked"
case "$*" in
  "compose version --short") echo "{compose}" ;;
  version*) {engine} ;;
  info*) echo "{about}" ;;
  "context inspect"*) echo "{host}" ;;
  *" ps --all"*) echo '{{"Service": "local-cloud", "State": "running", "ID": "1"}}' ;;
  *" stop" | *" down "* | *" up "* | *" rm "* | *build* | ps* | "volume ls"*) ;;
  *) echo "docker $*: unexpected" >&2; exit 64 ;;
esac
"""


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """Puts a Docker on the PATH that gives these answers."""

    def answers(
        compose="2.26.1-4",
        engine="echo 26.1.5",
        host="unix:///var/run/docker.sock",
        about="Debian GNU/Linux 12 (bookworm) [name=seccomp,profile=builtin name=cgroupns]",
    ):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        text = DOCKER.format(compose=compose, engine=engine, host=host, about=about)
        program(folder / "docker", text)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
        return folder / "asked"

    for name in ("ENGINE_SOCKET", "ENGINE_GROUP", "AWS_ACCESS_KEY_ID", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    return answers


@pytest.fixture
def deployment(tmp_path):
    return Deployment(folder=tmp_path / "containers")


@pytest.fixture
def keys(docker, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


@pytest.mark.parametrize("version", ["2.26.1-4", "v2.24.0", "5.0.1"])
def test_docker_compose_alone_finds_what_was_last(
    docker, deployment, monkeypatch, tmp_path, version
):
    socket = tmp_path / "engine.sock"
    socket.touch()
    docker(compose=version, host=f"unix://{socket}")
    monkeypatch.setenv("ENGINE_GROUP", "998")
    monkeypatch.setenv("AIRFLOW_IMAGE", "mine:1")
    monkeypatch.setenv("SOMETHING_ELSE", "secret")
    deployment.folder.mkdir()
    assert compose_for(deployment).write_settings()
    text = deployment.settings.read_text()
    lines = text.splitlines()[1:]
    assert {f"ENGINE_SOCKET='{socket}'", "ENGINE_GROUP='998'"} <= set(lines)
    assert {"COMPOSE_PROFILES='local'", "COMPOSE_PROJECT_NAME='batchmark'"} <= set(lines)
    assert f"SECRETS_FOLDER='{deployment.secrets}'" in lines
    assert "AIRFLOW_IMAGE='mine:1'" in lines
    assert "SOMETHING_ELSE" not in text

    monkeypatch.delenv("AIRFLOW_IMAGE")
    assert compose_for(deployment).write_settings()
    assert "AIRFLOW_IMAGE" not in deployment.settings.read_text()


def test_settings_of_the_users_own_stay(deployment):
    deployment.folder.mkdir()
    deployment.settings.write_text("AIRFLOW_ADDRESS=10.0.0.1\n")
    assert not Compose(deployment).write_settings()
    assert deployment.settings.read_text() == "AIRFLOW_ADDRESS=10.0.0.1\n"


def test_a_missing_docker_and_an_unknown_profile_are_reported(
    docker, deployment, monkeypatch, tmp_path
):
    with monkeypatch.context() as nowhere:
        nowhere.setenv("PATH", str(tmp_path))
        with pytest.raises(LaptopError, match="docker is not on the PATH"):
            compose_for(deployment)
    docker()
    with pytest.raises(LaptopError, match="unknown profile 'moon': use local or aws"):
        compose_for(Deployment(profile="moon", folder=deployment.folder))


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"compose": "2.23.3"}, r"2\.24 or newer is required, but 2\.23\.3 is installed"),
        ({"compose": "1.29.2"}, r"2\.24 or newer is required, but 1\.29\.2 is installed"),
        ({"compose": "v2.9.0"}, r"2\.24 or newer is required, but v2\.9\.0 is installed"),
        (
            {"compose": '"; exit 125; : "'},
            r"has no Compose plugin here: install Docker Compose 2\.24 or newer",
        ),
        ({"engine": "echo 'Cannot connect' >&2; exit 1"}, "Cannot connect"),
        (
            {"host": "ssh://me@elsewhere"},
            "the Docker engine is at ssh://me@elsewhere, but the local cl",
        ),
    ],
)
def test_a_docker_that_will_not_do_is_reported(docker, deployment, answers, message):
    docker(**answers)
    with pytest.raises(LaptopError, match=message):
        compose_for(deployment)


@pytest.mark.parametrize(
    ("platform", "about", "group"),
    [
        ("linux", "Debian [name=seccomp]", None),  # the socket's own
        ("linux", "Debian [name=rootless]", "0"),  # its belongs to root in its containers
        ("darwin", "Alpine Linux [name=seccomp]", "in a virtual machine"),
        ("linux", "Docker Desktop []", "in a virtual machine"),
    ],
)
def test_the_engines_socket_goes_with_its_group(
    docker, deployment, tmp_path, monkeypatch, platform, about, group
):
    if os.getgid() == 0:
        os.chown(tmp_path, -1, 12)
    docker(host=f"unix://{tmp_path}", about=about)
    monkeypatch.setattr("laptop.containers.compose.sys.platform", platform)
    found = engine_socket(Compose(deployment))
    if group == "in a virtual machine":
        assert found == {"ENGINE_SOCKET": "/var/run/docker.sock", "ENGINE_GROUP": "0"}
    else:
        group = group or str(tmp_path.stat()[stat.ST_GID])
        assert found == {"ENGINE_SOCKET": str(tmp_path), "ENGINE_GROUP": group}


def test_a_socket_by_name_wins_and_has_to_be_there(docker, deployment, tmp_path, monkeypatch):
    docker(host="ssh://me@elsewhere")
    monkeypatch.setenv("ENGINE_SOCKET", str(tmp_path))
    assert engine_socket(Compose(deployment))["ENGINE_SOCKET"] == str(tmp_path)
    monkeypatch.setenv("ENGINE_SOCKET", "/none/docker.sock")
    with pytest.raises(LaptopError, match=r"socket /none/docker\.sock: No such file"):
        engine_socket(Compose(deployment))


def test_aws_gets_the_callers_keys_as_a_file_and_no_socket(docker, deployment, keys, monkeypatch):
    docker(host="ssh://me@elsewhere")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_PROFILE", "another")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    compose = compose_for(Deployment(profile="aws", folder=deployment.folder))
    assert "secret" in (deployment.secrets / "aws" / "credentials").read_text()
    assert compose.env["AWS_FOLDER"] == str(deployment.secrets / "aws")
    assert compose.env["AWS_DEFAULT_REGION"] == "eu-west-1"
    assert "ENGINE_SOCKET" not in compose.env
    assert "AWS_PROFILE" not in compose.env


def test_aws_ends_a_local_cloud_that_ran_until_now_and_down_the_services_of_all_profiles(
    docker, deployment, keys
):
    asked = docker()
    deployment = Deployment(profile="aws", port=free_port(), folder=deployment.folder)
    lifecycle.up(deployment, build=False)
    lifecycle.down(deployment)
    said = [
        line
        for line in asked.read_text().splitlines()
        if any(f" {word} " in line for word in ("rm", "up", "down"))
    ]
    assert [line.partition(":")[0] for line in said] == ["local", "aws", "local"]
    assert said[0].endswith(" rm --stop --force local-cloud")
    assert " down " in said[2]


@pytest.mark.parametrize(
    ("own", "built"),
    [
        ((), ["airflow-migrate", "job_container"]),
        (("AIRFLOW_IMAGE",), ["job_container"]),
        (("JOB_IMAGE",), ["airflow-migrate"]),
        (("AIRFLOW_IMAGE", "JOB_IMAGE"), []),
    ],
)
def test_an_image_of_the_users_own_is_never_built_over(docker, deployment, monkeypatch, own, built):
    asked = docker()
    for name in ("AIRFLOW_IMAGE", "JOB_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    for name in own:
        monkeypatch.setenv(name, "mine:1")
    monkeypatch.setenv("WHEELS", "/wheels of mine")
    lifecycle._build(Compose(deployment), Clock())
    asked.touch()
    wheels = "--build-context wheels=/wheels of mine "
    assert (wheels in asked.read_text()) is ("job_container" in built)
    assert [Path(line.split()[-1]).name for line in asked.read_text().splitlines()] == built


def test_two_commands_at_once_are_reported_and_one_reaches_it_past_any_proxy(
    deployment, monkeypatch
):
    monkeypatch.setenv("NO_PROXY", "example.org")
    monkeypatch.setenv("no_proxy", "")
    with lifecycle.locked(deployment):
        assert os.environ["NO_PROXY"] == "example.org,127.0.0.1,localhost"
        assert os.environ["no_proxy"] == "127.0.0.1,localhost"
        running = pytest.raises(LaptopError, match="another `make containers-up` is running")
        with running, lifecycle.locked(deployment):
            pass
