"""Own jobs are collected as any other, with what is known only of how they ran."""

import pytest

from batchmark.aws.job_description import batch_time
from batchmark.core.names import full_name
from batchmark.runs.own_jobs import storing
from tests.builders.watched_jobs import (
    BEGIN,
    BUCKET,
    RUN_ID,
    STOPPED,
    WHOLE,
    described,
    facts,
    host,
    plan,
    planned,
)
from tests.stand_ins.batch import TAGS
from tests.stand_ins.collected_jobs import Account

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
