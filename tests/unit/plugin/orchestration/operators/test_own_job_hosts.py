"""What an own job runs on is found out once, while it runs, and never at its cost."""

import asyncio
import threading

import pytest

from batchmark.orchestration.operators import batch_trigger, own_job_hosts
from batchmark.orchestration.operators.own_job_hosts import HostMemory
from batchmark.runs.job_outcome import JobOutcome
from tests.builders.watched_jobs import HOST, described, expected, host
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.following import RUNNING, SUCCEEDED, Following

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


def test_a_host_is_asked_for_once_for_each_attempt(asked):
    assert remembered(described(), described(), at_the_end=described()) == host()
    assert len(asked) == 1
    other = described(container={"containerInstanceArn": "another"})
    assert remembered(described(), other, at_the_end=other) is not None
    assert len(asked) == 3
    assert remembered(described(), at_the_end=other) is None


def test_a_job_that_nobody_saw_has_none_nor_one_with_an_error(asked, monkeypatch, caplog):
    unplaced = described(container={"containerInstanceArn": None})
    assert remembered(unplaced, at_the_end=unplaced) is None
    assert remembered(at_the_end=described()) is None
    assert asked == []
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
