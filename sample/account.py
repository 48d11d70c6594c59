"""An in-memory AWS account with a bucket and finished jobs. It makes no calls to AWS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError

from batchmark.core.config import Config
from batchmark.core.names import INSTALLATION_TAG
from batchmark.core.run import PlannedJob
from batchmark.runs.plans.planning import names_of_job
from batchmark.runs.result_documents import ExpectedDocument, key_of
from sample import story
from sample.bucket import MemoryBucket
from sample.documents import ran

LOG = "Made-up data: nothing ran, so nothing was logged."


class Account:
    """Stands in for boto3's default session, so that no call from this process can reach AWS.

    `client` returns the same clients to every caller.
    """

    def __init__(self, config: Config) -> None:
        self.s3 = MemoryBucket(config.bucket, config.region)
        self._config = config
        self._batch = _Batch()
        self._clients: Mapping[str, Any] = {"s3": self.s3, "batch": self._batch, "logs": _Logs()}

    def client(self, service: str, *_: object, **__: object) -> Any:
        return self._clients[service]

    def forget_jobs(self) -> None:
        """Forget the jobs of earlier runs, as Batch does after a few days."""
        self._batch.jobs.clear()

    def run(self, run_id: str, week: int, planned: Iterable[PlannedJob], at: datetime) -> list[str]:
        """Simulate the planned jobs, one after the other on each target, and return their ids."""
        ends: dict[str, datetime] = {}
        ids = []
        for job in planned:
            job_id = f"{run_id}-{job.target.replace('.', '-')}-{job.name}"
            begins = ends.get(job.target, at + timedelta(seconds=story.START_SECONDS))
            document, seconds = ran(run_id, week, job, job_id, begins)
            ends[job.target] = begins + timedelta(seconds=seconds)
            uri = ExpectedDocument.of(run_id, job).uri(job_id, 1)
            self.s3.objects[key_of(uri)] = document.to_json().encode()
            name = f"{names_of_job(self._config.name, run_id, job)}0"
            tags = {INSTALLATION_TAG: self._config.name}
            queue = self._config.targets[job.target].job_queue
            times = (at, begins, ends[job.target])
            self._batch.jobs[job_id] = _described(job_id, name, queue, tags, times)
            ids.append(job_id)
        return ids


class _Batch:
    """A Batch client with only the calls needed to collect a run."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}

    def describe_jobs(self, *, jobs: Iterable[str]) -> dict[str, Any]:
        return {"jobs": [self.jobs[one] for one in jobs if one in self.jobs]}

    def get_paginator(self, _: str) -> _Batch:
        return self

    def paginate(self, *, jobQueue: str, filters: Any) -> Iterable[dict[str, Any]]:  # noqa: N803
        prefix = filters[0]["values"][0].rstrip("*")
        of_queue = (job for job in self.jobs.values() if job["jobQueue"] == jobQueue)
        return [{"jobSummaryList": [job for job in of_queue if job["jobName"].startswith(prefix)]}]


class _Logs:
    """A CloudWatch Logs client that returns the same single line for every log."""

    exceptions = SimpleNamespace(ResourceNotFoundException=ClientError)

    def get_log_events(self, *, nextToken: str = "", **_: object) -> dict[str, Any]:  # noqa: N803
        events = [] if nextToken else [{"message": LOG}]
        return {"events": events, "nextBackwardToken": "begin"}


def _described(
    job_id: str, name: str, queue: str, tags: dict[str, str], times: tuple[datetime, ...]
) -> dict[str, Any]:
    created, started, stopped = (int(one.timestamp() * 1000) for one in times)
    attempt = {"startedAt": started, "stoppedAt": stopped, "container": {"exitCode": 0}}
    return {
        "jobId": job_id,
        "jobArn": f"arn:aws:batch:us-east-1:000000000000:job/{job_id}",
        "jobName": name,
        "jobQueue": queue,
        "tags": tags,
        "status": "SUCCEEDED",
        "createdAt": created,
        **attempt,
        "attempts": [attempt],
        "container": {"exitCode": 0, "logStreamName": f"sample/{job_id}"},
    }
