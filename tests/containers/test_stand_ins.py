"""Postgres, or its stand-in, does what the official image documents and we rely on."""

from __future__ import annotations

import secrets
import time

import pytest
from docker.errors import DockerException

READY_SECONDS = 60
USER, DATABASE = "owner", "ledger"


@pytest.fixture
def volume(engine):
    made = engine.volumes.create()
    yield made
    made.remove(force=True)


@pytest.fixture
def password(tmp_path):
    """A password that is in the file which `start` mounts, readable by root alone."""
    word = f"a '\"$b{secrets.token_hex(8)}"
    (tmp_path / "password").write_text(word + "\n")
    (tmp_path / "password").chmod(0o600)
    return word


@pytest.fixture
def start(engine, postgres_image, volume, tmp_path):
    started = []

    def server(**settings):
        container = engine.containers.run(
            postgres_image,
            detach=True,
            environment={
                "POSTGRES_USER": USER,
                "POSTGRES_DB": DATABASE,
                "POSTGRES_PASSWORD_FILE": "/run/secrets/password",
            },
            volumes={
                volume.name: {"bind": "/var/lib/postgresql/data"},
                str(tmp_path / "password"): {"bind": "/run/secrets/password", "mode": "ro"},
            },
            **settings,
        )
        started.append(container)
        return container

    yield server
    for container in started:
        container.remove(force=True, v=True)


def ask(container, password, query):
    """psql over TCP, from the container's own address: there the password counts."""
    container.reload()
    command = ["psql", f"--host={address(container)}", f"--username={USER}", f"--dbname={DATABASE}"]
    code, said = container.exec_run(
        [*command, "--no-psqlrc", "--tuples-only", "--no-align", "-c", query],
        environment={"PGPASSWORD": password, "PGCONNECT_TIMEOUT": "10"},
    )
    return code, said.decode().strip()


def address(container):
    (network,) = container.attrs["NetworkSettings"]["Networks"].values()
    found: str = network["IPAddress"]
    return found


def wait_until_ready(container):
    deadline = time.monotonic() + READY_SECONDS
    ready = ["pg_isready", "--quiet", "--host=127.0.0.1", f"--username={USER}"]
    while True:
        try:
            if container.exec_run(ready).exit_code == 0:
                return
        except DockerException:
            pass  # it has ended: its log says why
        assert time.monotonic() < deadline, container.logs().decode()
        time.sleep(0.2)


def test_the_password_from_the_file_opens_the_database_and_no_other_does(start, password):
    server = start()
    wait_until_ready(server)

    assert ask(server, password, "select current_user, current_database()") == (
        0,
        f"{USER}|{DATABASE}",
    )
    code, said = ask(server, "another", "select 1")
    assert code != 0
    assert "password authentication failed" in said


def test_what_was_written_is_there_after_a_stop_and_a_new_container(start, password):
    first = start()
    wait_until_ready(first)
    assert ask(first, password, "create table kept as select 42 as answer")[0] == 0
    first.stop(timeout=30)
    assert first.wait()["StatusCode"] == 0
    assert "fast shutdown" in first.logs().decode()

    second = start()
    wait_until_ready(second)
    assert ask(second, password, "select answer from kept") == (0, "42")
    assert "without being properly shut down" not in second.logs().decode()


def test_the_server_is_process_1_and_no_longer_root(start, password):
    server = start()
    wait_until_ready(server)

    code, said = server.exec_run(["cat", "/proc/1/status"])
    status = dict(line.split(":\t", 1) for line in said.decode().splitlines() if ":\t" in line)
    assert (code, status["Name"], set(status["Uid"].split())) == (0, "postgres", {"999"})


def test_without_a_password_it_does_not_start(engine, postgres_image):
    container = engine.containers.run(postgres_image, detach=True)
    try:
        assert container.wait(timeout=READY_SECONDS)["StatusCode"] == 1
        assert "POSTGRES_PASSWORD" in container.logs().decode()
    finally:
        container.remove(force=True, v=True)
