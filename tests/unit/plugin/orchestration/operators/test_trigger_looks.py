"""What a trigger asks of a job while it runs, which holds nothing up: its progress and its host."""

import asyncio
import threading

import pytest

from batchmark.orchestration.operators import batch_trigger, log_progress, own_job_hosts
from batchmark.orchestration.operators.log_progress import LogProgress
from batchmark.orchestration.operators.own_job_hosts import HostMemory
from batchmark.runs.job_outcome import JobOutcome
from tests.builders.watched_jobs import HOST, described, expected, host
from tests.stand_ins.failing_calls import failing
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


CONTAINER = {"container": {"containerInstanceArn": HOST}}


@pytest.fixture
def asked(monkeypatch):
    """The ids of jobs whose hosts were asked for."""
    found = []

    def host_of(_, job):
        assert threading.current_thread() is not threading.main_thread()
        found.append(job["jobId"])
        return host()

    monkeypatch.setattr(own_job_hosts, "host_of", host_of)
    return found


def remembered(*looked_at, at_the_end):
    async def remember():
        memory = HostMemory()
        for job in looked_at:
            memory.look(None, job)
        return await memory.host(at_the_end)

    return asyncio.run(remember())


def test_a_host_that_there_was_is_asked_for_once_for_each_attempt(asked, monkeypatch, caplog):
    unplaced = described(container={"containerInstanceArn": None})
    assert remembered(unplaced, at_the_end=unplaced) is None
    assert remembered(at_the_end=described()) is None
    assert asked == []
    assert remembered(described(), described(), at_the_end=described()) == host()
    assert len(asked) == 1
    other = described(container={"containerInstanceArn": "another"})
    assert remembered(described(), other, at_the_end=other) is not None
    assert len(asked) == 3
    assert remembered(described(), at_the_end=other) is None
    monkeypatch.setattr(own_job_hosts, "host_of", failing(KeyError("odd")))
    assert remembered(described(), at_the_end=described()) is None
    assert "The host of job" in caplog.text


@pytest.mark.parametrize("is_own", [True, False])
def test_the_trigger_remembers_the_host_of_an_own_job(asked, monkeypatch, is_own):
    document = expected().model_dump(mode="json")
    if not is_own:
        document["own_job"] = None
    given = []

    def outcome(*arguments):
        given.append(arguments[-1])
        return JobOutcome(None, {})

    monkeypatch.setattr(batch_trigger, "outcome", outcome)
    following = Following(document=document)
    following.succeeds((1, RUNNING | CONTAINER), (1, {}), (1, SUCCEEDED))
    assert given == [host() if is_own else None]
    assert len(asked) == int(is_own)
