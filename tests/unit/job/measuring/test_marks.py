"""Marks of this process, and those that only the ECS agent knows."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from batchmark_job.measuring.marks import JobMarks, process_started_at
from tests.stand_ins.http import serving

# Shortened from the examples in the ECS developer guide.
CONTAINER = {"Name": "curl", "StartedAt": "2020-10-02T00:43:07.155788862Z"}
TASK = {
    "KnownStatus": "RUNNING",
    "PullStartedAt": "2020-10-02T00:43:06.202617438Z",
    "PullStoppedAt": "2020-10-02T00:43:06.31288465Z",
    "Containers": [CONTAINER],
}


@pytest.fixture
def agent(monkeypatch):
    """Gives an ECS agent these answers; returns the list of what it is asked for."""
    answers, asked = {}, []

    def answer(request):
        asked.append(request.path)
        return 200 if request.path in answers else 404, answers.get(request.path, b"")

    with serving(answer) as server:
        address = f"http://127.0.0.1:{server.server_port}/v4/an-id"

        def start(*contents):
            monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", address)
            for path, content in zip(("/v4/an-id/task", "/v4/an-id"), contents, strict=True):
                raw = isinstance(content, bytes)
                answers[path] = content if raw else json.dumps(content).encode()
            return asked

        yield start


@pytest.fixture(autouse=True)
def outside_ecs(monkeypatch):
    monkeypatch.delenv("ECS_CONTAINER_METADATA_URI_V4", raising=False)


def test_a_process_by_itself_knows_when_it_started_and_of_a_mark_the_first_time():
    marks = JobMarks().document()
    assert marks.process_started_at < datetime.now(UTC)
    unknown = marks.model_dump(exclude={"process_started_at"})
    assert set(unknown.values()) == {None}
    marks = JobMarks()
    names = ("imported", "device_ready", "inputs_ready", "first_call", "trial_ended", "steady")
    for name in names:
        marks.mark(name)
    first = marks.document()
    times = [getattr(first, f"{name}_at") for name in ("process_started", *names)]
    assert times == sorted(times)
    marks.mark("steady")
    marks.mark("imported")
    assert marks.document() == first


def test_times_from_the_ecs_agent(agent):
    asked = agent(TASK, CONTAINER)
    marks = JobMarks().document()
    assert marks.image_pull_started_at == datetime(2020, 10, 2, 0, 43, 6, 202617, UTC)
    assert marks.image_pull_stopped_at == datetime(2020, 10, 2, 0, 43, 6, 312884, UTC)
    assert marks.container_started_at == datetime(2020, 10, 2, 0, 43, 7, 155788, UTC)
    assert asked == ["/v4/an-id/task", "/v4/an-id"]


@pytest.mark.parametrize(
    "value", [None, 7, "", "soon", "2020-10-02T00:43:06", "0001-01-01T00:00:00Z", ["2020"], {}]
)
def test_a_time_that_is_none(agent, value):
    agent(TASK | {"PullStartedAt": value}, CONTAINER | {"StartedAt": value})
    marks = JobMarks().document()
    assert marks.image_pull_started_at is marks.container_started_at is None
    assert marks.image_pull_stopped_at is not None


@pytest.mark.parametrize("answer", [b"", b"not JSON", b"[]", b"null", b"\xff\xfe"])
def test_an_answer_that_is_none(agent, answer):
    agent(answer, answer)
    assert JobMarks().document().image_pull_started_at is None
    agent(TASK, answer)
    marks = JobMarks().document()
    assert marks.image_pull_started_at is not None
    assert marks.container_started_at is None


def test_an_agent_without_a_task_is_not_asked_again(agent, monkeypatch):
    asked = agent({}, CONTAINER)
    assert JobMarks().document().container_started_at is None
    assert asked == ["/v4/an-id/task"]
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", "http://127.0.0.1:1")
    assert JobMarks().document().container_started_at is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
def test_a_processs_start_is_known_better_than_to_a_second():
    before = datetime.now(UTC)
    program = "from batchmark_job.measuring import marks; print(marks.process_started_at())"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    answer = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)
    tick = timedelta(seconds=0.02)
    assert before - tick <= datetime.fromisoformat(answer.strip()) <= datetime.now(UTC)


@pytest.mark.parametrize("stat", [None, "", "1 (a job) S 2", "1 (a) job) S " + "x " * 30])
def test_a_processs_start_by_psutil(tmp_path, stat):
    if stat is not None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/stat").write_text(stat)
    by_psutil = datetime.fromtimestamp(psutil.Process().create_time(), UTC)
    assert abs(process_started_at(tmp_path) - by_psutil) < timedelta(seconds=1)
    assert abs(process_started_at() - by_psutil) < timedelta(seconds=2)
