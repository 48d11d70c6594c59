"""What the tests of containers decide before they start an engine."""

import multiprocessing
import os
import re
import runpy
import sys
from unittest.mock import patch

import botocore.loaders
import pytest

from tests.builders.files import program
from tests.containers.engine import DEFAULT_SOCKET, answering_engine
from tests.containers.stand_ins import ROOT

# It knows one context, and engines at all sockets but `silent`.
DOCKER = """
case "$*" in
  "context inspect --format {{{{.Endpoints.docker.Host}}}}") {context} ;;
  *silent*) exit 1 ;;
esac
"""


@pytest.mark.parametrize(
    ("host", "context", "found"),
    [
        (None, "echo unix:///home/me/docker.sock", "unix:///home/me/docker.sock"),
        *((None, none, DEFAULT_SOCKET) for none in ("exit 1", "echo", "echo ssh://me@elsewhere")),
        (None, "echo unix:///silent/docker.sock", None),
        ("tcp://127.0.0.1:1", "echo unix:///silent/docker.sock", "tcp://127.0.0.1:1"),
    ],
)
def test_the_engine_is_that_of_docker_host_or_else_of_dockers_context_or_the_usual_one(
    tmp_path, monkeypatch, host, context, found
):
    program(tmp_path / "docker", DOCKER.format(context=context))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", host or "")
    engine = answering_engine()
    assert (engine and engine.env) == (found and {"DOCKER_HOST": found})
    assert (engine and engine.host) == found


def run_tests_of_containers(said):
    options = ("-q", "-rfE", "-p", "no:cacheprovider", "--assert=plain", "--rootdir", str(ROOT))
    with said.open("w") as sys.stdout:
        sys.exit(pytest.main([*options, str(ROOT / "tests" / "containers")]))


def test_without_an_engine_all_is_skipped_and_one_line_says_why(tmp_path, monkeypatch):
    """In a fork, which has what they import."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    said = tmp_path / "said"
    run = multiprocessing.get_context("fork").Process(target=run_tests_of_containers, args=(said,))
    run.start()
    run.join()

    *_, title, reason, counts = said.read_text().splitlines()
    assert "containers: SKIPPED, nothing was tested" in title
    assert reason == "`docker version` gets no answer at DOCKER_HOST=unix:///nowhere/docker.sock"
    assert re.fullmatch(r"\d+ skipped in .*", counts)
    assert run.exitcode == 0


def test_a_pytest_that_tests_start_does_not_inherit_the_options_of_theirs(monkeypatch):
    """Such as `--durations=9`, whose lines would stand among those that it is asked for."""
    monkeypatch.setattr(botocore.loaders, "create_loader", dict)  # it sets that, too
    given = {"PYTEST_ADDOPTS": "--durations=9", "PYTEST_XDIST_WORKER": "gw0"}
    with patch.dict(os.environ, given):
        runpy.run_path(str(ROOT / "tests" / "conftest.py"))
        assert "PYTEST_ADDOPTS" not in os.environ
