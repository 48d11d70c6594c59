"""`make aws-check` against a local cloud, for its tests."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing

import pytest

from laptop.aws import AwsClients
from laptop.aws_check.report import Report
from laptop.aws_check.state import State
from laptop.processes import processes_of, stop_all
from laptop.session import Clock
from laptop.stack import ROOT, Ports
from tests.e2e.remains import remains
from tests.e2e.stacks import JOB_DIR
from tests.lean_stack import LeanStack
from tests.waiting import wait_for

PRINCIPAL = "checker"
# Ten minutes with all parts on an idle machine, over twenty on a slow and busy one; below the limit
# that pytest is given, whose error would not say which step it was.
LONGEST_SECONDS = 3000


class Checks:
    """Starts of the command, all in one folder."""

    def __init__(self, stack, folder, provider):
        self._stack, self.folder = stack, folder
        self._provider = provider
        self.home = folder / "123456789012-us-east-1"
        self._log = folder.with_suffix(".log")

    def start(self, *options):
        argv = [sys.executable, "-m", "laptop", "aws-check", "--folder", self.folder, *options]
        env = (
            {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
            | self._stack.aws_as(PRINCIPAL)
            | self._provider
        )
        with self._log.open("a") as log:
            return subprocess.Popen(
                argv, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def run(self, *options):
        """The exit code, and what was said."""
        check = self.start(*options)
        try:
            return check.wait(LONGEST_SECONDS), self._log.read_text()
        finally:
            self._kill(check)

    def kill_at(self, step, *options):
        """Start it, and kill it when it has begun the step."""
        check = self.start(*options)

        def begun():
            assert check.poll() is None, self._log.read_text()
            state = State.of(self.home)
            return state and state.kept.running == step

        try:
            wait_for(begun, f"begin of {step}", LONGEST_SECONDS)
        finally:
            self._kill(check)

    @staticmethod
    def _kill(check):
        check.kill()
        check.wait()

    def reports(self):
        return [
            Report.model_validate_json(path.read_text())
            for path in sorted(self.folder.glob("*.json"))
        ]

    def left(self):
        """Of the account, and of programs here."""
        with closing(AwsClients(self._stack.aws)) as aws:
            queues = aws.client("sqs").list_queues().get("QueueUrls", [])
        return remains(self._stack), queues, processes_of(self.home)


def of_status(report, status):
    return {step.step for step in report.steps if step.status == status}


@pytest.fixture
def stack(tmp_path):
    with LeanStack(tmp_path / "stack", Ports(), Clock().say, job_dir=JOB_DIR, vcpus=4) as stack:
        stack.start_cloud()
        yield stack


@pytest.fixture
def checks(stack, tmp_path):
    checks = Checks(stack, tmp_path / "checks", stack.keep_provider(PRINCIPAL))
    yield checks
    stop_all(checks.home)
