"""Batch in memory, for tests of the operator and the trigger."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError

SPOT_QUEUE, ON_DEMAND_QUEUE = "arn:queue-spot", "arn:queue-on-demand"
FINISHED = ("SUCCEEDED", "FAILED")
TAGS = {"batchmark:installation": "batchmark"}  # of our jobs
RECLAIMED = "Host EC2 (instance i-0f1e2d3c4b5a69788) terminated."


def client_error(code, status=400):
    answer = {
        "Error": {"Code": code, "Message": ""},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(answer, "AnyCall")


class FakeBatch:
    """Keeps jobs as DescribeJobs returns them; the next submissions raise `failures`.

    With `lost_answer`, a failed submission has created its job.
    """

    def __init__(self):
        self.jobs: dict[str, dict[str, Any]] = {}
        self.terminated: list[tuple[str, str]] = []
        self.submissions: list[dict[str, Any]] = []
        self.failures: list[Exception] = []
        self.lost_answer = False
        self.meta = SimpleNamespace(endpoint_url="http://127.0.0.1:5000", region_name="us-east-1")
        self._numbers = itertools.count(1)

    def add(self, name, status, queue=SPOT_QUEUE, **fields):
        number = next(self._numbers)
        job = {
            "jobId": f"job-{number}",
            "jobName": name,
            "jobQueue": queue,
            "status": status,
            "createdAt": 1_795_222_700_000 + 1000 * number,
            "tags": TAGS,
            "attempts": [],
            "container": {},
        }
        self.jobs[job["jobId"]] = job | fields
        return job["jobId"]

    def add_array(self, name, statuses, queue=SPOT_QUEUE):
        """Add an array job whose children are in these states; they have a log of their own."""
        parent = self.add(name, "PENDING", queue, arrayProperties={"size": len(statuses)})
        for index, status in enumerate(statuses):
            child = f"{parent}:{index}"
            own = {"jobId": child, "status": status, "arrayProperties": {"index": index}}
            own["container"] = {"logStreamName": f"stream-{index}"}
            self.jobs[child] = self.jobs[parent] | own
        return parent

    def change_child(self, parent, index, **fields):
        """Change a child; its parent ends with the last of them, as in AWS."""
        self.change(f"{parent}:{index}", **fields)
        states = [child["status"] for child in self.children(parent)]
        if all(status in FINISHED for status in states):
            failed = {"status": "FAILED", "statusReason": "Array Child Job failed"}
            self.change(parent, **(failed if "FAILED" in states else {"status": "SUCCEEDED"}))

    def children(self, parent):
        return [job for job_id, job in self.jobs.items() if job_id.startswith(f"{parent}:")]

    def change(self, job_id, **fields):
        """Change a job; answers given before keep their values."""
        self.jobs[job_id] = self.jobs[job_id] | fields

    def submit_job(self, **request):
        self.submissions.append(request)
        if self.failures:
            error = self.failures.pop(0)
            if self.lost_answer:
                self._add(request)
            raise error
        return {"jobId": self._add(request)}

    def _add(self, request):
        tags = request.get("tags", {})
        return self.add(request["jobName"], "SUBMITTED", request["jobQueue"], tags=tags)

    def describe_jobs(self, jobs):
        assert len(jobs) <= 100
        return {"jobs": [self.jobs[job_id] for job_id in jobs if job_id in self.jobs]}

    def terminate_job(self, jobId, reason):  # noqa: N803
        if ":" in jobId:  # a child has no tags, and only what has ours may be ended
            raise client_error("AccessDeniedException", 403)
        self.terminated.append((jobId, reason))
        for index, child in enumerate(self.children(jobId)):
            if child["status"] not in FINISHED:
                self.change_child(jobId, index, status="FAILED", statusReason=reason)
        if self.jobs[jobId]["status"] not in FINISHED:
            self.change(jobId, status="FAILED", statusReason=reason)

    def list_jobs(self, jobQueue, jobStatus):  # noqa: N803
        found = [
            self._counted(job)
            for job in self.jobs.values()
            if job["jobQueue"] == jobQueue
            and job["status"] == jobStatus
            and ":" not in job["jobId"]
        ]
        return {"jobSummaryList": found}

    def _counted(self, job):
        if children := self.children(job["jobId"]):
            counts = Counter(child["status"] for child in children)
            return job | {"arrayProperties": job["arrayProperties"] | {"statusSummary": counts}}
        return job

    def get_paginator(self, operation):
        assert operation == "list_jobs"
        return SimpleNamespace(paginate=self._pages)

    def _pages(self, jobQueue, filters=None, jobStatus=None):  # noqa: N803
        if filters is None:
            found = self.list_jobs(jobQueue, jobStatus)["jobSummaryList"]
            yield from ({"jobSummaryList": [job]} for job in found)
            return
        ((pattern,),) = [each["values"] for each in filters]
        prefix = pattern.removesuffix("*").lower()
        for job in self.jobs.values():  # one per page
            own = not {":", "#"} & set(job["jobId"]) and job["jobQueue"] == jobQueue
            if own and job["jobName"].lower().startswith(prefix):
                yield {"jobSummaryList": [job]}


class FakeClients:
    """Takes the place of AwsClients."""

    def __init__(self, **clients):
        self.clients = clients
        self.asked: list[tuple[str, int]] = []

    def __call__(self, service, *, attempts=6):
        self.asked.append((service, attempts))
        return self.clients[service]
