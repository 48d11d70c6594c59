"""The examples of the contract tell two metrics each, as one reader of lines sees them."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from batchmark_job.result.metric import FILE_VARIABLE, PREFIX, MetricLine, parse_metric_line
from tests.builders.files import finished
from tests.paths import DOCS, ROOT

EXAMPLES = ROOT / "job_container" / "own_jobs" / "examples"
IN_THE_FILE = MetricLine(metric="throughput", value=120.5, unit="images/s", higher_is_better=True)
ON_STANDARD_OUTPUT = MetricLine(metric="encoded", value=3.25, unit="MB", higher_is_better=False)


def python(_):
    return [sys.executable, EXAMPLES / "tell.py"]


def bash(_):
    return ["bash", EXAMPLES / "tell.sh"]


def cpp(folder):
    if (compiler := shutil.which("g++")) is None:
        pytest.skip("g++ is not on the PATH")
    program = folder / "tell"
    strict = ["-std=c++11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *strict, EXAMPLES / "tell.cpp", "-o", program], check=True)
    return [program]


@pytest.mark.parametrize("program", [python, bash, cpp])
def test_an_example_tells_a_metric_each_way_and_needs_no_file(program, tmp_path):
    assert all(len(path.read_text().splitlines()) <= 13 for path in EXAMPLES.iterdir())
    command, metrics = program(tmp_path), tmp_path / "metrics"
    metrics.write_text("there before\n")
    told = [
        subprocess.run(command, env=variables, check=True, capture_output=True, text=True).stdout
        for variables in (os.environ | {FILE_VARIABLE: str(metrics)}, {"PATH": os.environ["PATH"]})
    ]
    kept, line = metrics.read_text().splitlines()
    assert kept == "there before"
    assert parse_metric_line(line) == IN_THE_FILE
    for (printed,) in map(str.splitlines, told):
        assert printed.startswith(PREFIX)
        assert parse_metric_line(printed.removeprefix(PREFIX)) == ON_STANDARD_OUTPUT


@pytest.mark.parametrize("code", [0, 3])
def test_the_pipe_of_the_docs_tells_what_a_program_prints_and_keeps_its_exit_code(code, tmp_path):
    page = (DOCS / "own-jobs.md").read_text()
    words, script = re.search(
        r"command = \[([^\n]*), <<-EOT\n(.*?)\n +EOT$", page, re.MULTILINE | re.DOTALL
    ).groups()
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho epoch 1\necho images per second: 120.5\nexit {code}\n")
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = finished(*json.loads(f"[{words}]"), script, env={"PATH": path})
    *printed, line = done.stdout.splitlines()
    assert printed == ["epoch 1", "images per second: 120.5"]
    assert line.startswith(PREFIX)
    assert parse_metric_line(line.removeprefix(PREFIX)) == IN_THE_FILE
    assert done.returncode == code
