"""The job as Batch starts it: a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_SECONDS = 120  # generous: other tests may keep the machine busy

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start_job(tmp_path: Path) -> Iterator[Start]:
    """Start `python -m batchmark_job run` with these arguments; ended after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith("AWS_")
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "batchmark_job", "run", *arguments],
            cwd=ROOT / "job_container",
            env=variables | {"TMPDIR": str(tmp_path)} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
