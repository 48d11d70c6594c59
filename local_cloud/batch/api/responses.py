"""Answers to HTTP requests about jobs; see gaps/batch/responses.py for all others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from botocore.model import OperationModel
from botocore.validate import ParamValidator
from moto.batch.exceptions import ClientException
from moto.core.utils import get_service_model

from local_cloud.gaps.batch import missing
from local_cloud.gaps.batch.responses import CompleteBatchResponse

if TYPE_CHECKING:
    from local_cloud.batch.api.models import JobsBatchBackend

REFUSED: set[str] = set()  # operations that are not there


class JobsBatchResponse(CompleteBatchResponse):
    """moto's answers, with jobs from our backend."""

    @property
    def jobs(self) -> JobsBatchBackend:
        backend: JobsBatchBackend = self.batch_backend  # type: ignore[assignment]
        return backend

    def call_action(self) -> Any:
        """Refuse a request by the name of a field: required, unknown or missing here."""
        operation = operations().get(self._get_action())
        if operation is not None and self._get_action() not in REFUSED:
            check_fields(operation, self._request())
            missing.check(self._request())
        return super().call_action()

    def short_limits_allowed(self) -> bool:
        return self.jobs.settings.allow_short_limits

    def _request(self) -> dict[str, Any]:
        try:
            request = json.loads(self.body or "{}")
        except ValueError:
            request = None
        if not isinstance(request, dict):
            raise ClientException("The request must be a JSON object")
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


@cache
def operations() -> dict[str, OperationModel]:
    """Batch's operations, by the last part of their paths."""
    model = get_service_model("batch")
    found = map(model.operation_model, model.operation_names)
    return {operation.http["requestUri"].rpartition("/")[2]: operation for operation in found}


def check_fields(operation: OperationModel, request: dict[str, Any]) -> None:
    """Raise ClientException for the first field that is missing or unknown, at any depth.

    AWS's clients refuse the same before they send it.
    """
    report = ParamValidator().validate(request, operation.input_shape).generate_report()
    for problem in report.splitlines():
        if problem.startswith(("Missing required parameter", "Unknown parameter")):
            raise ClientException(problem)


def refusal(operation: str) -> Callable[[JobsBatchResponse], str]:
    def refuse(_: JobsBatchResponse) -> str:
        raise missing.refusal(operation)

    return refuse


def paths() -> Iterator[str]:
    """The paths of all of Batch's operations; those that are missing are refused by name."""
    for action, operation in operations().items():
        if "{" in action:  # tags: the path names the resource
            continue
        if action in missing.OPERATIONS or not hasattr(JobsBatchResponse, action):
            setattr(JobsBatchResponse, action, refusal(operation.name))
            REFUSED.add(action)
        yield f"{{0}}{operation.http['requestUri']}$"
