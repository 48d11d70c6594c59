"""A document is written once, with all that can be known."""

import pytest

from batchmark.aws.result_bucket import RunStore
from batchmark.core.errors import CollectError
from batchmark.runs.own_jobs import storing
from batchmark.runs.own_jobs.storing import READ_AGAIN_AFTER_SECONDS, known, store_document
from batchmark_job.result import parse_document
from tests.builders.watched_jobs import (
    BEGIN,
    BUCKET,
    END,
    JOB_ID,
    RUN_ID,
    described,
    expected,
    facts,
    host,
    metric,
    plan,
)
from tests.stand_ins.batch import FakeClients, client_error
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.marked_log import MarkedLog

KEY = f"raw/run/g5.xlarge/job-thumbnails/1/{JOB_ID}.1.json"
WHOLE = [*facts(*BEGIN), metric(), *facts(*END)]


class Account:
    """A bucket and a log; what is asked of the host is counted."""

    def __init__(self, monkeypatch, *shown, on_aws=True):
        self.s3 = MemoryBucket(BUCKET, "us-east-1")
        if not on_aws:
            self.s3.meta.endpoint_url = "http://127.0.0.1:5000"
        self.logs = MarkedLog(*shown)
        self.slept, self.asked = [], []
        monkeypatch.setattr(storing, "host_of", self.host_of)
        self.host = host()

    def host_of(self, _, job):
        self.asked.append(job["jobId"])
        return self.host

    def store(self, job=None, own_job=None, **arguments):
        return store_document(
            RunStore(self.s3, BUCKET, RUN_ID),
            FakeClients(logs=self.logs),
            job or described(),
            expected(own_job),
            sleep=self.slept.append,
            **arguments,
        )

    @property
    def stored(self):
        return parse_document(self.s3.objects[KEY])


def test_a_document_is_written_where_a_job_would_have_written_it(monkeypatch):
    account = Account(monkeypatch, WHOLE)
    document = account.store()
    assert account.stored == document
    assert len(document.measurements) == 2
    assert document.environment.instance_type == "g5.2xlarge"
    assert (account.asked, account.slept) == ([JOB_ID], [])


def test_a_host_that_was_seen_while_the_job_ran_is_not_asked_for_again(monkeypatch):
    account = Account(monkeypatch, WHOLE)
    document = account.store(host=host(instance_type="g5.4xlarge"))
    assert document.environment.instance_type == "g5.4xlarge"
    assert account.asked == []


@pytest.mark.parametrize(
    "seen", [host(container_instance="of an earlier attempt"), host(instance_type=None)]
)
def test_a_host_of_an_earlier_attempt_or_unknown_is_asked_for(monkeypatch, seen):
    account = Account(monkeypatch, WHOLE)
    assert account.store(host=seen).environment.instance_type == "g5.2xlarge"


def test_a_log_whose_end_comes_late_is_read_again(monkeypatch):
    account = Account(monkeypatch, WHOLE[:3], WHOLE[:6], WHOLE)
    document = account.store()
    assert document.own_job.command_seconds == 80.25
    assert account.slept == list(READ_AGAIN_AFTER_SECONDS[:2])


def test_a_log_whose_end_never_comes_costs_half_a_minute_in_aws_and_nothing_here(monkeypatch):
    account = Account(monkeypatch, WHOLE[:3])
    assert account.store().own_job.command_seconds is None
    assert account.slept == list(READ_AGAIN_AFTER_SECONDS)
    assert sum(account.slept) < 30
    here = Account(monkeypatch, WHOLE[:3], on_aws=False)
    here.store()
    assert sum(here.slept) == 0


@pytest.mark.parametrize(
    ("own_job", "job", "lines", "waits"),
    [
        (plan(check="c"), described(), WHOLE, True),
        (plan(check="c"), described(), [*WHOLE, *facts("check 0")], False),
        (plan(output="o"), described(), WHOLE, True),
        (plan(output="o"), described(), [*WHOLE, *facts("sha256 missing")], False),
        (
            plan(check="c", output="o"),
            described("FAILED", code=1),
            [*WHOLE, *facts("check 1")],
            False,
        ),
        (plan(check="c"), described("FAILED", code=3), facts(*BEGIN, "end 3 1"), False),
        (plan(shell=False), described(), [], False),
        (plan(), described("FAILED", code=137, isTerminated=True), WHOLE[:3], False),
        (plan(), described("FAILED", code=None), WHOLE[:3], False),
    ],
)
def test_only_what_is_to_come_is_waited_for(monkeypatch, own_job, job, lines, waits):
    account = Account(monkeypatch, lines)
    account.store(job, own_job)
    assert bool(account.slept) is waits


def test_a_document_that_knows_more_is_kept(monkeypatch):
    account = Account(monkeypatch, WHOLE)
    first = account.store()
    account.host = host(instance_type=None, availability_zone=None, registered_at=None)
    assert account.store() == first == account.stored
    assert [call for call, _ in account.s3.calls].count("PutObject") == 1


def test_a_document_that_knows_less_is_replaced(monkeypatch):
    account = Account(monkeypatch, WHOLE[:3])
    account.host = host(instance_type=None)
    less = account.store()
    account.logs, account.host = MarkedLog(WHOLE), host()
    assert known(account.store()) > known(less)
    assert account.stored.environment.instance_type == "g5.2xlarge"


def test_what_is_no_document_is_replaced(monkeypatch):
    account = Account(monkeypatch, WHOLE)
    account.s3.objects[KEY] = b"{"
    assert account.store() == account.stored


def test_a_log_that_may_not_be_read_costs_what_it_told(monkeypatch, caplog):
    account = Account(monkeypatch)
    account.logs.failures = [client_error("AccessDeniedException", 403)] * 9
    document = account.store()
    assert document.own_job.wrapped is False
    assert "AccessDeniedException" in caplog.text


def test_a_log_that_does_not_answer_now_is_for_the_next_try(monkeypatch):
    account = Account(monkeypatch, WHOLE)
    account.logs.failures = [client_error("ThrottlingException")]
    with pytest.raises(type(client_error("x")), match="ThrottlingException"):
        account.store()
    assert account.s3.objects == {}


@pytest.mark.parametrize(
    "job",
    [described(attempts=[]), described(attempts=[{"statusReason": "CannotPullContainerError"}])],
)
def test_of_a_job_that_never_started_nothing_is_asked(monkeypatch, job):
    account = Account(monkeypatch, WHOLE)
    assert account.store(job) is None
    assert (account.asked, account.s3.objects) == ([], {})


def test_a_job_that_nobody_foresaw_loses_itself_only(monkeypatch):
    account = Account(monkeypatch, WHOLE)
    odd = described(container={"resourceRequirements": [{"type": "VCPU", "value": "many"}]})
    account.logs = MarkedLog([])
    with pytest.raises(CollectError, match="no document could be made of it: unexpected ValueErr"):
        account.store(odd, plan(shell=False))
