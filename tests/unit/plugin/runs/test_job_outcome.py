"""How a finished own job is judged, once its document is written in its stead."""

import pytest
from botocore.exceptions import ClientError

from batchmark.aws.job_log import FILE_MARK
from batchmark.runs.job_outcome import outcome
from batchmark.runs.own_jobs import storing
from batchmark_job.result.document import MeasurementStatus, parse_document
from tests.builders.watched_jobs import (
    BEGIN,
    BUCKET,
    STARTED,
    WHOLE,
    described,
    expected,
    facts,
    host,
    metric,
    plan,
)
from tests.stand_ins.batch import FakeClients, client_error
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.marked_log import MarkedLog


class Judged:
    """The outcome of a job that told these lines, and the document that it has then."""

    def __init__(self, job, lines=WHOLE, own_job=None, last_lines=("boom",), problem=None):
        self.s3, logs = MemoryBucket(BUCKET, "us-east-1"), MarkedLog(lines)
        logs.all_lines = last_lines
        if problem:
            self.s3.on_call = failing(problem)
        clients = FakeClients(logs=logs, s3=self.s3)
        self.failure, self.timing, self.own_error = outcome(
            clients, job, expected(own_job), host=host()
        )
        (text,) = self.s3.objects.values() or [None]
        self.document = text and parse_document(text)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(storing, "READ_AGAIN_AFTER_SECONDS", (0.0,))


def test_a_job_that_passed_succeeds_with_its_document_and_one_that_failed_leaves_one():
    judged = Judged(described())
    assert judged.failure is None
    assert judged.document.own_job.purchase_option == "spot"
    assert judged.timing["marks"]["process_started_at"].startswith("2026-11-21T01:00:00")
    judged = Judged(described("FAILED", code=3), [*facts(*BEGIN, "end 3 5001")])
    assert "is FAILED: exit code 3 (the command's own error)\n" in judged.failure
    assert judged.failure.endswith("boom")
    assert judged.document.measurements[0].status is MeasurementStatus.FAILED
    assert judged.own_error == "exit code 3 (the command's own error)"
    killed = described("FAILED", code=137, container={"reason": "OutOfMemoryError: killed"})
    assert "OutOfMemoryError" in Judged(killed, [*facts(*BEGIN)]).own_error


@pytest.mark.parametrize(
    ("job", "own_job"),
    [
        (described("FAILED", code=137), None),  # perhaps by its host
        (described("FAILED", code=143), None),
        (described("FAILED", code=1, isTerminated=True), None),
        (described("FAILED", code=7), plan(check="false")),  # of its result, at this size
    ],
)
def test_what_the_command_did_not_end_by_itself_is_not_its_own_error(job, own_job):
    lines = [*facts(*BEGIN, "end 0 5001", "check 7")] if own_job else [*facts(*BEGIN)]
    judged = Judged(job, lines, own_job)
    assert judged.failure
    assert judged.own_error is None


def test_what_its_wrapper_told_at_the_end_does_not_hide_why_it_failed():
    told = ["no such picture", *[metric(mark=FILE_MARK)] * 500, *facts("end 3 1")]
    judged = Judged(described("FAILED", code=3), last_lines=told)
    assert judged.failure.endswith("no such picture")


@pytest.mark.parametrize(("status", "code"), [("FAILED", 1), ("SUCCEEDED", 0)])
def test_a_check_that_failed_is_named(status, code):
    judged = Judged(described(status, code=code), [*WHOLE, *facts("check 1")], plan(check="./c"))
    assert "its owner's check failed: its check ended with exit code 1" in judged.failure
    assert not judged.document.own_job.check.passed


def test_a_job_without_a_document_fails_with_the_reason_unless_s3_is_down(monkeypatch):
    never = described("FAILED", code=None, attempts=[], statusReason="cancelled")
    del never["startedAt"], never["stoppedAt"]
    judged = Judged(never)
    assert judged.document is None
    assert "cancelled" in judged.failure
    odd = described(attempts=[{"startedAt": STARTED}])
    del odd["stoppedAt"]
    assert "left no valid result document: Batch reports no attempt" in Judged(odd).failure
    with pytest.raises(ClientError, match="SlowDown"):
        Judged(described(), problem=client_error("SlowDown", 503))
    monkeypatch.setattr(storing, "WatchedJob", failing(OverflowError("odd")))
    assert "is SUCCEEDED, but it left no valid result document: its document could not be" in (
        Judged(described()).failure
    )
    assert "own error); it left no valid" in Judged(described("FAILED", code=3)).failure
