"""What the command line says about containers, where no engine is needed to say it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def refused(*options, **environment):
    ended = subprocess.run(
        [sys.executable, "-m", "local_cloud", "--port", "0", *options],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--jobs", "pods"], "--jobs: invalid choice: 'pods'"),
        (["--job-network", "n"], "--job-network is for --jobs containers"),
        (["--jobs", "containers", "--job-network", "n"], "--job-network needs --job-endpoint"),
        (["--job-endpoint", "local-cloud:5000"], "'local-cloud:5000' is not like http://HOST:PORT"),
        (["--job-endpoint", "http://h:1/path"], "'http://h:1/path' is not like http://HOST:PORT"),
    ],
)
def test_wrong_options_are_one_clear_line(options, message):
    assert message in refused(*options)


def test_without_an_engine_it_says_so_and_ends(tmp_path):
    line = refused("--jobs", "containers", DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert "--jobs containers needs a Docker engine, and none answers" in line
    assert "start one, set DOCKER_HOST, or run jobs as processes" in line
