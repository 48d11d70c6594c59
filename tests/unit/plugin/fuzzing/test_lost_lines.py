"""However lines of a finished job's log are lost, doubled or split, it never passes as whole."""

from functools import cache

import pytest
from hypothesis import strategies as st

from batchmark.aws.job_log import FILE_MARK
from batchmark.runs.job_outcome import outcome
from batchmark.runs.own_jobs import storing
from batchmark.runs.own_jobs.doubts import NOT_ALL
from batchmark_job.result.document import MeasurementStatus, parse_document
from tests.builders.hostile import fuzz
from tests.builders.noise import quick_and_long
from tests.builders.watched_jobs import (
    BEGIN,
    BUCKET,
    END,
    SHA256,
    awslogs,
    described,
    expected,
    facts,
    host,
    metric,
    plan,
)
from tests.stand_ins.batch import FakeClients
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.marked_log import MarkedLog

OF_THE_SHELL = facts("end 0 5080.25")
LOG = [
    *facts(*BEGIN),
    "step 1",
    metric(value="4"),
    metric("loss", "0.5", "1", "false"),
    "step 2",
    metric(value="5"),
    *OF_THE_SHELL,
    metric("encoded", "3", "MB", mark=FILE_MARK),
    *facts("check 0", f"sha256 {SHA256}", *END[1:]),
]
OWN_JOBS = [plan(), plan(check="./check"), plan(output="out"), plan(shell=False)]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(storing, "READ_AGAIN_AFTER_SECONDS", ())


def judged(lines, own_job, container=None):
    """Why the job failed, if it did, and its document."""
    s3 = MemoryBucket(BUCKET, "us-east-1")
    clients = FakeClients(logs=MarkedLog(lines), s3=s3)
    job = described(container=container)
    failure = outcome(clients, job, expected(own_job), host=host()).failure
    (text,) = s3.objects.values()
    return failure, parse_document(text)


def told(document):
    """The samples of the whole job and of each metric."""
    return {
        tuple(row.parameters.items()): row.samples_seconds
        for row in document.measurements
        if row.status is MeasurementStatus.MEASURED
    }


@cache
def figures_of_the_whole():
    return told(judged(LOG, plan())[1])


def check(lines, own_job, container=None):
    """The figures of the whole log, or less with a word of it, or none at all and why."""
    failure, document = judged(lines, own_job, container)
    if failure:
        assert told(document) == {}
        assert "ENTRYPOINT" not in failure or not {*OF_THE_SHELL, *facts("over")} & {*lines}
        return
    assert document.measurements[0].samples_seconds == (90.5,)
    doubts = document.own_job.doubts
    assert told(document) == figures_of_the_whole() or any(NOT_ALL in one for one in doubts)


@st.composite
def damaged(draw):
    """A log with up to three lines, or spans of them, lost, doubled or split."""
    lines = list(LOG)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(("lost", "doubled", "split"))):
            case "lost":
                del lines[at : draw(st.integers(at + 1, len(lines)))]
            case "doubled":
                lines.insert(at, lines[at])
            case "split":
                after = draw(st.integers(0, len(lines[at])))
                lines[at : at + 1] = lines[at][:after], lines[at][after:]
        if not lines:
            break
    return lines


@quick_and_long("examples", [60], [3_000])
def test_a_log_whose_driver_may_drop_any_line(examples):
    fuzz(examples, check, damaged(), st.sampled_from(OWN_JOBS), st.just(awslogs()))


@pytest.mark.parametrize("own_job", OWN_JOBS[:3])
def test_a_log_that_lost_its_beginning_or_its_end(own_job):
    for at in range(1, len(LOG)):
        check(LOG[at:], own_job)
        check(LOG[:at], own_job)


def test_a_whole_log_raises_no_doubt():
    for own_job in OWN_JOBS:
        failure, document = judged(LOG, own_job)
        assert (failure, document.own_job.doubts) == (None, ())
        assert told(document) == figures_of_the_whole()
        assert len(document.measurements) == 4
