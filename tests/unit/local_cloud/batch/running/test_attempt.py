"""An attempt and its containers, whatever those run on."""

import threading
from types import SimpleNamespace

import pytest

from local_cloud.batch.attempt import Attempt
from local_cloud.batch.container import merge
from local_cloud.batch.pool import Allocation, Requirements
from local_cloud.batch.runtime import Exit, StartError

GRACE_SECONDS = 0.05
SOON_SECONDS = 10


class SlowRuntime:
    """Starts what it is asked to when it is let; its containers end only by SIGKILL."""

    def __init__(self):
        self.let = threading.Event()
        self.asked = threading.Event()
        self.ended = threading.Event()
        self.error = None

    def start(self, launch):
        assert self.let.wait(SOON_SECONDS)
        if self.error is not None:
            raise self.error
        return SimpleNamespace(
            started_at=1,
            address="192.0.2.1",
            ask_to_stop=self.asked.set,
            kill=self.ended.set,
            wait=self.wait,
        )

    def adopt(self, launch):
        raise self.error

    def wait(self):
        assert self.ended.wait(SOON_SECONDS)
        return Exit(137)


@pytest.fixture
def runtime():
    return SlowRuntime()


@pytest.fixture
def attempt(runtime):
    submission = SimpleNamespace(
        main_node=None,
        containers=[merge({"image": "repository:tag", "command": ["true"]}, {}, {})],
        definition=SimpleNamespace(name="definition"),
    )
    job = SimpleNamespace(
        id="id",
        arn="arn:aws:batch:us-east-1:123456789012:job/id",
        submission=submission,
        attempts=[],
    )
    environment = SimpleNamespace(
        name="environment", ecs_arn="arn:aws:ecs:us-east-1:123456789012:cluster/environment"
    )
    settings = SimpleNamespace(stop_grace_seconds=GRACE_SECONDS)
    return Attempt(job, Allocation(Requirements(1, 4), ()), settings, runtime, environment)


def test_what_was_stopped_before_it_had_started_is_killed_after_the_grace(attempt, runtime):
    starter = threading.Thread(target=attempt.start)
    starter.start()
    # Returns at once, though the image may still be on its way.
    attempt.stop("no longer needed")
    assert not runtime.ended.wait(4 * GRACE_SECONDS)
    runtime.let.set()
    starter.join(SOON_SECONDS)
    assert runtime.asked.is_set()
    assert runtime.ended.wait(SOON_SECONDS)
    end = attempt.wait()
    assert (end.exit_code, end.status_reason) == (137, "no longer needed")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            StartError("CannotPullContainerError", "manifest unknown"),
            "CannotPullContainerError: manifest unknown",
        ),
        (OSError("no such program"), "CannotStartContainerError: no such program"),
    ],
)
def test_why_a_container_did_not_start_is_its_reason(attempt, runtime, error, reason):
    runtime.error = error
    runtime.let.set()
    assert not attempt.start()
    end = attempt.wait()
    assert (end.exit_code, end.reason, end.status_reason) == (None, reason, "Task failed to start")


def test_what_nobody_can_ask_for_after_a_restart_is_a_lost_host(attempt, runtime):
    runtime.error = TimeoutError("the engine does not answer")
    assert not attempt.resume()
    end = attempt.wait()
    assert end.exit_code is None
    assert end.status_reason.startswith("Host EC2 (instance i-")
