"""A run of one planned job, collected of a Batch, a bucket and a log in memory."""

from __future__ import annotations

import json
from types import SimpleNamespace

from batchmark.aws.result_bucket import RunStore
from batchmark.core.names import full_name
from batchmark.runs.collecting import collect_run
from batchmark.runs.result_documents import ExpectedDocument, key_of
from tests.builders import watched_jobs
from tests.builders.installations import configured, target
from tests.builders.runs import GPU_ENVIRONMENT, build_job, build_row
from tests.builders.watched_jobs import JOB_ID
from tests.stand_ins.batch import TAGS, FakeBatch, FakeClients
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.marked_log import MarkedLog, NotFoundError

RUN_ID = "run"
LABEL = "batchmark-g5-xlarge-smoke-1"
OTHER_ID = "99999999-2222-3333-4444-555555555555"
PLAN = build_job("g5.xlarge", [], suite="smoke").planned.model_copy(
    update={"result_prefix": "s3://results/raw/run/g5.xlarge/smoke/1/"}
)
CONFIG = configured(
    events_log_group="/aws/events/batch/batchmark",
    targets={
        "g5.xlarge": target(
            "cuda",
            job_queue="queue",
            on_demand_queue="on-demand-queue",
            compute_environments={"spot": "g5-spot", "on_demand": "g5-on-demand"},
        )
    },
)


def described(status="SUCCEEDED", **fields):
    named = {"jobName": full_name(LABEL, RUN_ID, 0), "tags": TAGS}
    return watched_jobs.described(status, **named | fields)


def document(*rows, environment=(), **fields):
    """What the job left, as JSON; `fields` replace its own."""
    job = build_job(
        "g5.xlarge",
        rows or [build_row([0.1] * 8)],
        suite="smoke",
        job_id=JOB_ID,
        environment=GPU_ENVIRONMENT.model_copy(update=dict(environment)),
    )
    return json.loads(job.document.to_json()) | {"run_id": RUN_ID} | fields


def event(status, time, job_id=JOB_ID, kind="Batch Job State Change"):
    """A line of the log group that Batch's events go to."""
    body = {"detail-type": kind, "time": time, "detail": {"jobId": job_id, "status": status}}
    return json.dumps(body)


class Account:
    """Batch with these jobs, of which a bucket has these documents; what was ended runs on.

    Of their logs there are these lines alone, which tell of an own job.

    Attributes:
        terminated, streams: the jobs that were ended and why, and the log streams that were read.
    """

    def __init__(self, *jobs, documents=(), events=(), lines=(), plan=PLAN):
        self.plan = plan
        self.batch = FakeBatch()
        self.batch.jobs = {job["jobId"]: job for job in jobs}
        self.batch.terminate_job = self.terminate_job
        self.terminated, self.streams = [], []
        self.logs = MarkedLog(lines)
        self.logs.get_log_events = self.get_log_events
        found = {"events": [{"message": one} for one in events]}
        self.logs.get_paginator = lambda _: SimpleNamespace(paginate=lambda **_: [found])
        self.s3 = MemoryBucket(CONFIG.bucket, CONFIG.region)
        for one in documents:
            self.s3.objects[self.key(one["job_id"], one["job_attempt"])] = json.dumps(one).encode()

    def terminate_job(self, jobId, reason):  # noqa: N803
        self.terminated.append((jobId, reason))

    def get_log_events(self, logStreamName, **_):  # noqa: N803
        self.streams.append(logStreamName)
        raise NotFoundError({"Error": {"Code": "ResourceNotFoundException"}}, "GetLogEvents")

    def key(self, job_id=JOB_ID, attempt=1):
        return key_of(ExpectedDocument.of(RUN_ID, self.plan).uri(job_id, attempt))

    @property
    def store(self):
        return RunStore(self.s3, CONFIG.bucket, RUN_ID)

    def collected(self, job_id=JOB_ID, **options):
        return collect_run(
            self.store,
            self.batch,
            self.logs,
            run_id=RUN_ID,
            planned=[self.plan],
            job_ids=[job_id],
            config=CONFIG,
            clients=FakeClients(logs=self.logs),
            **options,
        )


def collected(*jobs, **account):
    return Account(*jobs, **account).collected()
