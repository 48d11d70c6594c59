"""Answers to HTTP requests about jobs; see gaps/batch.py for all others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from local_cloud.gaps.batch import CompleteBatchResponse

if TYPE_CHECKING:
    from local_cloud.batch.api.models import JobsBatchBackend


class JobsBatchResponse(CompleteBatchResponse):
    """moto's answers, with jobs from our backend."""

    @property
    def jobs(self) -> JobsBatchBackend:
        backend: JobsBatchBackend = self.batch_backend  # type: ignore[assignment]
        return backend

    def short_limits_allowed(self) -> bool:
        return self.jobs.settings.allow_short_limits

    def _request(self) -> dict[str, Any]:
        request: dict[str, Any] = json.loads(self.body or "{}")
        return request

    def updatecomputeenvironment(self) -> str:
        """Start jobs that may have waited for this change."""
        answer = super().updatecomputeenvironment()
        self.jobs.scheduler.environments_changed()
        return answer

    def submitjob(self) -> str:
        self._check_timeout()
        job = self.jobs.submit(self._request())
        return json.dumps({"jobArn": job.arn, "jobName": job.submission.name, "jobId": job.id})

    def describejobs(self) -> str:
        return json.dumps({"jobs": self.jobs.job_details(self._request().get("jobs") or [])})

    def listjobs(self) -> str:
        return json.dumps(self.jobs.job_summaries(self._request()))
