"""How a finished own job is judged, once its document is written in its stead, and collected."""

import pytest
from botocore.exceptions import ClientError

from batchmark.aws.job_description import batch_time
from batchmark.aws.job_log import FILE_MARK
from batchmark.core.names import full_name
from batchmark.runs.job_outcome import outcome
from batchmark.runs.own_jobs import storing
from batchmark_job.result.document import MeasurementStatus, parse_document
from tests.builders.watched_jobs import (
    BEGIN,
    BUCKET,
    RUN_ID,
    STARTED,
    STOPPED,
    WHOLE,
    described,
    expected,
    facts,
    host,
    metric,
    plan,
    planned,
)
from tests.stand_ins.batch import TAGS, FakeClients, client_error
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.collected_jobs import Account
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
        judged = outcome(clients, job, expected(own_job), host=host())
        self.failure, self.timing, self.own_error = judged
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
    told = ["no such picture", *[metric(mark=FILE_MARK)] * 500, *facts("end 3 1")]
    judged = Judged(described("FAILED", code=3), last_lines=told)
    assert judged.failure.endswith("no such picture")


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
    left_none = "is SUCCEEDED, but it left no valid result document: its document could not be"
    assert left_none in Judged(described()).failure
    assert "own error); it left no valid" in Judged(described("FAILED", code=3)).failure


NAME = full_name("batchmark-g5-xlarge-job-thumbnails-1", RUN_ID, 0)
AWS = "https://s3.us-east-1.amazonaws.com"


@pytest.fixture(autouse=True)
def a_host(monkeypatch):
    monkeypatch.setattr(storing, "host_of", lambda *_: host())


def ended(job=None, endpoint=AWS, lines=WHOLE):
    """An account whose one own job has ended."""
    job = (job or described()) | {"jobName": NAME, "tags": TAGS}
    account = Account(job, plan=planned(), lines=lines)
    account.s3.meta.endpoint_url = endpoint
    account.s3.generate_presigned_url = lambda *_, **__: f"{endpoint}/object"
    return account


def documents_written(account):
    written = [key for call, key in account.s3.calls if call == "PutObject"]
    return [key for key in written if key.startswith("raw/")]


def test_a_document_that_its_task_could_not_write_is_written_now_and_then_read():
    account = ended()
    (job,) = account.collected().jobs
    assert documents_written(account) == [job.document_uri.removeprefix(f"s3://{BUCKET}/")]
    assert job.document.own_job.command_seconds == 80.25
    assert job.failure is None
    account.s3.calls.clear()
    (again,) = account.collected().jobs
    assert (again.document, documents_written(account)) == (job.document, [])


def test_a_job_that_failed_is_collected_with_the_reason_and_its_last_lines():
    account = ended(described("FAILED", code=3))
    events = [{"message": line} for line in ("reading", "", "boom", "BATCHMARK_JOB over")]
    account.logs.get_log_events = lambda **_: {"events": events, "nextBackwardToken": None}
    (job,) = account.collected().jobs
    assert "exit code 3" in job.failure
    assert not job.document.own_job.check.passed
    assert job.ending.how == "exit code 3 (the command's own error)"
    assert job.ending.last_lines == ("reading", "boom")
    failing = planned().model_copy(update={"own_job": plan(check="false")})
    account = ended(described("FAILED", code=7), lines=facts(*BEGIN, "end 0 5001", "check 7"))
    account.plan = failing
    (job,) = account.collected().jobs
    assert job.ending.how == "its check ended with exit code 7"


def test_a_job_that_was_not_to_be_run_is_lost_with_that_reason_unless_it_ran_all_the_same():
    account, not_run = ended(), {0: "not run, as ..."}
    (job,) = account.collected(not_run=not_run).jobs
    assert job.ending is None
    account.batch.jobs = {}
    (lost,) = account.collected(None, not_run=not_run).lost
    assert (lost.reason, lost.not_run, lost.ending) == (not_run[0], True, None)
    assert lost.seconds == 0


@pytest.mark.parametrize(
    ("endpoint", "ran_on"),
    [(AWS, ("g5.2xlarge", "spot")), ("http://127.0.0.1:5000", ("g5.xlarge", None))],
)
def test_in_aws_the_instance_that_batch_chose_takes_the_place_of_the_planned_one(endpoint, ran_on):
    (job,) = ended(endpoint=endpoint).collected().jobs
    assert (job.planned.instance_type, job.purchase_option) == ran_on
    assert job.planned.target == "g5.xlarge"


def test_a_job_without_log_or_start_is_collected_by_what_is_known():
    account = ended(described(container={"logStreamName": None}))
    (job,) = account.collected().jobs
    assert job.document.own_job.wrapped is False
    key = "runs/run/logs/g5.xlarge/job-thumbnails-1.log"
    assert (job.log_group, job.log_stream) == (BUCKET, key)
    assert job.log_url.endswith(f"&prefix={key}")
    assert "no CloudWatch log stream for this job" in account.store.read_if_there(key).decode()
    attempt = {"stoppedAt": STOPPED, "container": {"exitCode": 0}}
    odd = described(attempts=[attempt])
    del odd["startedAt"]
    (job,) = ended(odd).collected().jobs
    assert (job.batch_seconds, job.stopped_at) == (80.25, batch_time(STOPPED))
