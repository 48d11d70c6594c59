"""What the tests of containers decide before they start an engine."""

import ipaddress
import os
import re
import runpy
import subprocess
import sys
from unittest.mock import patch

import botocore.loaders
import pytest

from tests.containers.debian import Unavailable, own_release, source_lists
from tests.containers.engine import DEFAULT_SOCKET, answering_engine
from tests.containers.host_network import free_network
from tests.containers.stand_ins import ROOT, folders_of_wheels, pip_conf

DEBIAN = """\
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
"""
STANZAS = f"""\
{DEBIAN}
Types: deb
URIs: http://archive.example/third-party
Suites: stable
Components: main
"""


# It knows one context, and engines at all sockets but `silent`.
DOCKER = """\
#!/bin/sh
case "$*" in
  "context inspect --format {{{{.Endpoints.docker.Host}}}}") {context} ;;
  *silent*) exit 1 ;;
esac
"""


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """Puts a Docker on the PATH that gives this answer when asked for its context."""

    def answers(context):
        program = tmp_path / "docker"
        program.write_text(DOCKER.format(context=context))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    monkeypatch.delenv("DOCKER_HOST", raising=False)
    return answers


def test_the_engine_of_dockers_context_is_found(docker):
    docker("echo unix:///home/me/docker.sock")
    assert answering_engine().env == {"DOCKER_HOST": "unix:///home/me/docker.sock"}


@pytest.mark.parametrize("context", ["exit 1", "echo", "echo ssh://me@elsewhere"])
def test_without_a_socket_in_dockers_context_the_usual_one_is_asked(docker, context):
    docker(context)
    assert answering_engine().host == DEFAULT_SOCKET


def test_docker_host_wins_over_dockers_context(docker, monkeypatch):
    docker("echo unix:///silent/docker.sock")
    assert answering_engine() is None
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    assert answering_engine().host == "tcp://127.0.0.1:1"


@pytest.mark.parametrize(
    "text",
    [
        'ID=fedora\nPRETTY_NAME="Fedora Linux 42"\n',
        'ID=debian\nPRETTY_NAME="Debian GNU/Linux 11"\nVERSION_CODENAME=bullseye\n',
        "",
    ],
)
def test_another_system_is_a_reason_to_skip(text):
    with pytest.raises(Unavailable, match="Debian 12 or 13, not") as reason:
        own_release(text)
    assert "\n" not in str(reason.value)


def test_the_machines_own_sources_name_the_other_release(tmp_path):
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (parts / "debian.sources").write_text(STANZAS)
    (parts / "debian.sources.bak").write_text(STANZAS)
    (tmp_path / "sources.list").write_text(
        "deb [signed-by=/k.gpg] http://mirror.example/debian-security bookworm-security main\n"
        "deb http://elsewhere.example stable main\n"
        "# deb http://mirror.example bookworm main\n"
    )

    found = source_lists("bookworm", "trixie", tmp_path)

    assert found == {
        "trixie-debian.sources": STANZAS.split("\n\n", maxsplit=1)[0].replace("bookworm", "trixie")
        + "\n",
        "trixie-sources.list": "deb [signed-by=/k.gpg] http://mirror.example/debian-security "
        "trixie-security main\n",
    }


def test_without_a_source_of_debian_there_is_no_engine(tmp_path):
    with pytest.raises(Unavailable, match="no source of bookworm"):
        source_lists("bookworm", "trixie", tmp_path)


def test_a_free_network_touches_none_in_use():
    taken = ["172.16.0.0/15", "172.18.4.1", "10.0.0.0/8", "fd00::/64"]

    assert free_network(taken) == ipaddress.IPv4Network("172.19.0.0/16")
    with pytest.raises(LookupError, match="no free network"):
        free_network(["0.0.0.0/0"])


def test_pip_in_a_build_knows_the_indexes_that_it_can_reach():
    listed = (
        ":env:.index-url='https://mirror.example/simple'\n"
        "global.extra-index-url='https://more.example/simple file:///srv/simple'\n"
        "global.find-links='/srv/wheels'\n"
        "global.timeout='60'\n"
    )

    assert pip_conf(listed).splitlines() == [
        "[global]",
        "cert = /etc/ssl/certs/ca-certificates.crt",
        "index-url = https://mirror.example/simple",
        "extra-index-url = https://more.example/simple",
    ]


def test_wheels_come_from_this_disks_folders_only(tmp_path):
    listed = f":env:.find-links='{tmp_path} https://wheels.example'\nglobal.find-links='/absent'\n"

    assert folders_of_wheels(listed) == [tmp_path]


def test_without_an_engine_all_is_skipped_and_one_line_says_why():
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider"),
            *("--assert=plain", "tests/containers"),
        ],
        cwd=ROOT,
        env=os.environ | {"DOCKER_HOST": "unix:///nowhere/docker.sock"},
        capture_output=True,
        text=True,
        check=False,
    )

    *_, title, reason, counts = run.stdout.splitlines()
    assert "containers: SKIPPED, nothing was tested" in title
    assert reason == "`docker version` gets no answer at DOCKER_HOST=unix:///nowhere/docker.sock"
    assert re.fullmatch(r"\d+ skipped in .*", counts)
    assert run.returncode == 0


def test_a_pytest_that_tests_start_does_not_inherit_the_options_of_theirs(monkeypatch):
    """Such as `--durations=9`, whose lines would stand among those that it is asked for."""
    monkeypatch.setattr(botocore.loaders, "create_loader", dict)  # it sets that, too
    with patch.dict(os.environ, {"PYTEST_ADDOPTS": "--durations=9"}):
        read = runpy.run_path(str(ROOT / "tests" / "conftest.py"))
        assert "PYTEST_ADDOPTS" not in os.environ
    read["_home"].cleanup()
