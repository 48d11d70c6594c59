"""How far a running job is, in its task's log."""

import asyncio
import threading

import pytest

from batchmark.orchestration.operators import log_progress
from batchmark.orchestration.operators.log_progress import LogProgress
from tests.stand_ins.following import RUNNING, SUCCEEDED, Following

JOB = {"container": {"logStreamName": "g5/default/1"}}
LINES = ["batchmark-job: suite smoke", "[0/26] matmul: turn 1 of 6", "    noisy", "[1/26] matmul"]


class Logs:
    def __init__(self, *pages):
        self.pages = list(pages)
        self.asked = []

    def get_log_events(self, **asked):
        self.asked.append(asked)
        page = self.pages.pop(0)
        if isinstance(page, Exception):
            raise page
        return {"events": [{"message": line} for line in page]}


def looked(logs, times, job=JOB):
    said = []
    told = LogProgress(lambda: logs, said.append)

    async def look():
        for now in times:
            await told.look(job, now)

    asyncio.run(look())
    return said


def test_the_newest_line_of_progress_is_said_once_after_a_look_every_ten_seconds():
    logs = Logs(LINES[:2], LINES, LINES, [*LINES, "[2/26] blur"])
    assert looked(logs, (0, 10, 20, 30)) == [LINES[1], LINES[3], "[2/26] blur"]
    assert logs.asked[0] == {
        "logGroupName": "/aws/batch/job",
        "logStreamName": "g5/default/1",
        "startFromHead": False,
        "limit": 25,
    }
    logs = Logs(LINES, LINES)
    looked(logs, range(0, 20, 2))
    assert len(logs.asked) == 2
    assert looked(Logs(RuntimeError("no such stream"), LINES), (0, 10)) == [LINES[3]]


@pytest.mark.parametrize("job", [{}, {"container": {}}])
def test_a_job_without_a_log_is_not_asked_for(job):
    logs = Logs()
    assert looked(logs, (0,), job) == []
    assert logs.asked == []


def test_a_log_that_does_not_answer_holds_nothing_up(monkeypatch):
    monkeypatch.setattr(log_progress, "ANSWER_SECONDS", 0.01)
    answered = threading.Event()

    class Silent:
        def get_log_events(self, **_):
            answered.wait(10)
            return {"events": []}

    try:
        assert looked(Silent(), (0,)) == []
    finally:
        answered.set()


def test_the_trigger_tells_it_while_the_job_runs(capsys):
    following = Following()
    following.trigger.clients.clients["logs"] = Logs(LINES)
    following.succeeds((1, RUNNING | JOB), (2, RUNNING | JOB), (3, SUCCEEDED))
    assert "[1/26] matmul" in capsys.readouterr().out
