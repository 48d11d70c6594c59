"""Own jobs are collected as any other, with what is known only of how they ran."""

import pytest

from batchmark.aws.result_bucket import RunStore
from batchmark.core.names import full_name
from batchmark.runs.collecting import collect_run
from batchmark.runs.own_jobs import storing
from batchmark.runs.own_jobs.storing import store_document
from tests.builders.installations import configured, target
from tests.builders.watched_jobs import (
    BEGIN,
    BUCKET,
    END,
    RUN_ID,
    described,
    expected,
    facts,
    host,
    planned,
)
from tests.stand_ins.batch import FakeBatch, FakeClients
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.marked_log import MarkedLog

NAME = full_name("batchmark-g5-xlarge-job-thumbnails-1", RUN_ID, 0)
CONFIG = configured(
    bucket=BUCKET, targets={"g5.xlarge": target("cuda", job_queue="queue", on_demand_queue=None)}
)
AWS = "https://s3.us-east-1.amazonaws.com"


@pytest.fixture(autouse=True)
def a_host(monkeypatch):
    monkeypatch.setattr(storing, "host_of", lambda *_: host())


class Run:
    """A run of one own job that has ended, and whose task may have written its document."""

    def __init__(self, job=None, endpoint=AWS, *, is_written=False):
        job = (job or described()) | {"jobName": NAME}
        self.s3 = MemoryBucket(BUCKET, "us-east-1")
        self.s3.meta.endpoint_url = endpoint
        self.s3.generate_presigned_url = lambda *_, **__: f"{endpoint}/object"
        self.store = RunStore(self.s3, BUCKET, RUN_ID)
        self.batch, self.logs = FakeBatch(), MarkedLog(facts(*BEGIN, *END))
        self.batch.jobs[job["jobId"]] = job
        self.job = job
        if is_written:
            clients = FakeClients(logs=self.logs)
            self.written = store_document(self.store, clients, job, expected())
        self.s3.calls.clear()

    def collected(self):
        return collect_run(
            self.store,
            self.batch,
            self.logs,
            run_id=RUN_ID,
            planned=[planned()],
            job_ids=[self.job["jobId"]],
            config=CONFIG,
            clients=FakeClients(logs=self.logs),
        )

    @property
    def documents_written(self):
        written = [key for call, key in self.s3.calls if call == "PutObject"]
        return [key for key in written if key.startswith("raw/")]


def test_a_document_that_its_task_wrote_is_read():
    run = Run(is_written=True)
    (job,) = run.collected().jobs
    assert job.document == run.written
    assert run.documents_written == []


def test_a_document_that_its_task_could_not_write_is_written_now():
    run = Run()
    (job,) = run.collected().jobs
    assert run.documents_written == [job.document_uri.removeprefix(f"s3://{BUCKET}/")]
    assert job.document.own_job.command_seconds == 80.25
    assert job.failure is None


def test_a_job_that_failed_is_collected_with_the_reason():
    (job,) = Run(described("FAILED", code=3)).collected().jobs
    assert "exit code 3" in job.failure
    assert not job.document.own_job.check.passed


@pytest.mark.parametrize(
    ("endpoint", "ran_on"),
    [(AWS, ("g5.2xlarge", "spot")), ("http://127.0.0.1:5000", ("g5.xlarge", None))],
)
def test_in_aws_the_instance_that_batch_chose_takes_the_place_of_the_planned_one(endpoint, ran_on):
    (job,) = Run(endpoint=endpoint).collected().jobs
    assert (job.planned.instance_type, job.purchase_option) == ran_on
    assert job.planned.target == "g5.xlarge"


def test_a_job_that_never_started_is_lost():
    never = described("FAILED", code=None, attempts=[], statusReason="cancelled")
    del never["startedAt"], never["stoppedAt"]
    run = Run(never)
    (lost,) = run.collected().lost
    assert "cancelled" in lost.reason
    assert run.documents_written == []


def test_a_job_whose_log_goes_elsewhere_is_collected_by_what_batch_knows():
    run = Run(described(container={"logStreamName": None}))
    (job,) = run.collected().jobs
    assert job.document.own_job.wrapped is False
    key = "runs/run/logs/g5.xlarge/job-thumbnails-1.log"
    assert (job.log_group, job.log_stream) == (BUCKET, key)
    assert job.log_url.endswith(f"&prefix={key}")
    assert "no log stream of this job" in run.store.read_if_there(key).decode()
