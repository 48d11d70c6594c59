"""A document is written once, with all that can be known, as soon as the log is whole."""

import pytest
from botocore.exceptions import ClientError

from batchmark.aws.result_bucket import RunStore
from batchmark.core.errors import CollectError
from batchmark.runs.own_jobs import storing
from batchmark.runs.own_jobs.lines import NOT_KNOWN, Facts
from batchmark.runs.own_jobs.storing import (
    LATEST_SECONDS,
    READ_AGAIN_AFTER_SECONDS,
    SETTLED_SECONDS,
    completeness,
    read_log,
    store_document,
)
from batchmark_job.result.document import parse_document
from tests.builders.watched_jobs import (
    BEGIN,
    BUCKET,
    JOB_ID,
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
)
from tests.stand_ins.batch import FakeClients, client_error
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.marked_log import MarkedLog

KEY = f"raw/run/g5.xlarge/job-thumbnails/1/{JOB_ID}.1.json"


class Account:
    """A bucket and a log; what is asked of the host is counted."""

    def __init__(self, monkeypatch):
        self.s3 = MemoryBucket(BUCKET, "us-east-1")
        self.logs = MarkedLog(WHOLE)
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


@pytest.fixture
def account(monkeypatch):
    return Account(monkeypatch)


@pytest.mark.parametrize(
    ("seen", "instance_type", "asked"),
    [
        (None, "g5.2xlarge", [JOB_ID]),
        (host(instance_type="g5.4xlarge"), "g5.4xlarge", []),  # seen while the job ran
        (host(container_instance="of an earlier attempt"), "g5.2xlarge", [JOB_ID]),
        (host(instance_type=None), "g5.2xlarge", [JOB_ID]),
    ],
)
def test_a_document_is_written_once_with_its_host(account, seen, instance_type, asked):
    document = account.store(host=seen)
    assert account.stored == document
    assert len(document.measurements) == 2
    assert document.environment.instance_type == instance_type
    assert (account.asked, account.slept) == (asked, [])


@pytest.mark.parametrize(
    ("every", "numbers"),
    [
        (["hello", *WHOLE[:-1], "BATCHMARK_METRIC no", "so so", WHOLE[-1]], [len(WHOLE) + 1]),
        (["the log is too long to be read to there"], [None]),
    ],
)
def test_a_line_without_a_metric_is_told_by_its_number_in_the_log(account, every, numbers):
    account.logs = MarkedLog([*WHOLE[:-1], "BATCHMARK_METRIC no", WHOLE[-1]])
    account.logs.all_lines = every
    bad = account.store().own_job.bad_lines
    assert [line.log_line for line in bad] == numbers
    assert [line.number for line in bad] == [2], "of those with a mark"


def test_a_document_is_kept_unless_it_knows_less(account):
    first = account.store()
    account.host = host(instance_type=None, availability_zone=None, registered_at=None)
    assert account.store() == first == account.stored
    assert [call for call, _ in account.s3.calls].count("PutObject") == 1
    account.s3.objects[KEY] = b"{"
    account.logs, account.host = MarkedLog(WHOLE[:3]), host(instance_type=None)
    less = account.store()
    assert account.stored == less
    account.logs, account.host = MarkedLog(WHOLE), host()
    assert completeness(account.store()) > completeness(less)
    assert account.stored.environment.instance_type == "g5.2xlarge"


def test_a_log_without_an_answer_is_for_the_next_try_and_an_odd_job_lost(account):
    account.logs.failures = [client_error("ThrottlingException")]
    with pytest.raises(ClientError, match="ThrottlingException"):
        account.store()
    assert account.s3.objects == {}
    odd = described(container={"resourceRequirements": [{"type": "VCPU", "value": "many"}]})
    account.logs = MarkedLog([])
    with pytest.raises(CollectError, match="its document could not be built: unexpected ValueErr"):
        account.store(odd, plan(shell=False))


@pytest.mark.parametrize(
    "job",
    [
        described(attempts=[]),
        described(attempts=[{"statusReason": "CannotPullContainerError"}]),
        described(attempts=[{"startedAt": STARTED}], stoppedAt=None),
        described("RUNNING"),  # as one that does not end though it was told to
    ],
)
def test_of_a_job_that_never_started_or_has_not_ended_nothing_is_asked(account, job):
    assert account.store(job) is None
    assert (account.asked, account.s3.objects) == ([], {})


class Reading:
    """What a job's log told that showed these lines one after the other, and the pauses."""

    def __init__(
        self, *shown, own_job=None, job=None, on_aws=True, now=STOPPED / 1000 + 11, failures=()
    ):
        logs = MarkedLog(*shown)
        logs.failures = list(failures)
        self.slept = []
        self.told = read_log(
            FakeClients(logs=logs),
            own_job or plan(),
            job or described(),
            on_aws=on_aws,
            sleep=self.slept.append,
            clock=lambda: now,
        )


@pytest.mark.parametrize(
    ("shown", "seconds", "looks"),
    [
        ((WHOLE, []), 80.25, 0),
        ((WHOLE[:3], WHOLE[:6], WHOLE), 80.25, 2),
        ((WHOLE[:3],), None, len(READ_AGAIN_AFTER_SECONDS)),
    ],
)
def test_a_log_is_read_until_it_is_whole_for_half_a_minute_in_aws(shown, seconds, looks):
    reading = Reading(*shown)
    assert reading.told.facts.command_seconds == seconds
    assert reading.slept == list(READ_AGAIN_AFTER_SECONDS[:looks])
    assert sum(reading.slept) < 30
    assert sum(Reading(*shown, on_aws=False).slept) == 0


@pytest.mark.parametrize(
    ("own_job", "job", "lines", "waits"),
    [
        (plan(), described(), WHOLE, False),
        (plan(), described(), WHOLE[:-1], True),  # such as metrics of its file
        (plan(), described(), [], True),
        (plan(check="c"), described("FAILED", code=3), facts(*BEGIN, "end 3 1"), True),
        (plan(check="c"), described("FAILED", code=3), facts(*BEGIN, "end 3 1", "over"), False),
        (plan(), described("FAILED", code=137, isTerminated=True), WHOLE[:3], False),
        (plan(), described("FAILED", code=None), WHOLE[:3], False),
    ],
)
def test_only_what_is_to_come_is_waited_for(own_job, job, lines, waits):
    assert bool(Reading(lines, own_job=own_job, job=job).slept) is waits


@pytest.mark.parametrize(
    ("on_aws", "since_stop", "slept"),
    [
        (True, 4.0, [SETTLED_SECONDS - 4.0]),
        (True, -99.0, [SETTLED_SECONDS]),  # by a clock that is behind
        (True, SETTLED_SECONDS, []),
        (False, 0.0, []),
    ],
)
def test_a_job_without_a_wrapper_is_read_a_moment_after_its_end(on_aws, since_stop, slept):
    now = STOPPED / 1000 + since_stop
    reading = Reading([metric()], own_job=plan(shell=False), on_aws=on_aws, now=now)
    assert reading.slept == pytest.approx(slept)
    assert len(reading.told.metrics) == 1


def test_a_job_without_a_wrapper_tells_no_facts_and_none_come_a_minute_after_the_stop():
    reading = Reading([*WHOLE, *facts("gpu Fast, 1, 2")], own_job=plan(shell=False))
    assert reading.told.facts == Facts()
    assert Reading(WHOLE[:3], now=STOPPED / 1000 + LATEST_SECONDS + 1).slept == []


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"job": described(container={"logStreamName": None})}, ""),
        ({"job": described(container={"logConfiguration": {"logDriver": "fluentd"}})}, ""),
        ({"failures": [client_error("ResourceNotFoundException", 400)]}, "ResourceNotFoundEx"),
        ({"failures": [client_error("AccessDeniedException", 403)] * 9}, "AccessDeniedException"),
    ],
)
def test_a_log_that_is_not_in_cloudwatch_or_may_not_be_read_tells_nothing(where, said, caplog):
    reading = Reading(WHOLE, **where)
    assert (reading.told, reading.slept) == (NOT_KNOWN, [])
    assert said in caplog.text
