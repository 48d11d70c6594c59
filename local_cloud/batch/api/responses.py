"""Handles HTTP requests for Batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from botocore.model import OperationModel
from botocore.validate import ParamValidator
from moto.batch.exceptions import ClientException
from moto.batch.responses import BatchResponse
from moto.core.utils import get_service_model

from local_cloud.batch.api.models import JobsBatchBackend
from local_cloud.gaps.batch import job_definitions, missing
from local_cloud.gaps.batch.backend import state_time_limit_actions

MIN_TIMEOUT_SECONDS = 60  # limit of attemptDurationSeconds
REFUSED: set[str] = set()  # operations that are not supported


class JobsBatchResponse(BatchResponse):
    """moto's Batch responses, plus the fields that moto drops and our backend's jobs.

    Its inherited method `_get_param` reads a field of the request's JSON body.
    """

    @property
    def backend(self) -> JobsBatchBackend:
        backend: JobsBatchBackend = self.batch_backend  # type: ignore[assignment]
        return backend

    def call_action(self) -> Any:
        """Handle a call; refuse it if a field is missing, unknown or unsupported."""
        operation = operations().get(self._get_action())
        if operation is not None and self._get_action() not in REFUSED:
            check_fields(operation, self._request())
            missing.check(self._request())
        return super().call_action()

    def _request(self) -> dict[str, Any]:
        try:
            request = json.loads(self.body or "{}")
        except ValueError:
            request = None
        if not isinstance(request, dict):
            raise ClientException("The request must be a JSON object")
        return request

    def createcomputeenvironment(self) -> str:
        return self._with_update_policy(super().createcomputeenvironment())

    def updatecomputeenvironment(self) -> str:
        """Update an environment, then start any waiting jobs that it can now run."""
        answer = self._with_update_policy(super().updatecomputeenvironment())
        self.backend.scheduler.environments_changed()
        return answer

    def _with_update_policy(self, answer: str) -> str:
        """Store the request's update policy, if it has one, in the environment."""
        arn = json.loads(answer)["computeEnvironmentArn"]
        environment: Any = self.backend.get_compute_environment(arn)
        if update_policy := self._get_param("updatePolicy"):
            environment.update_policy = update_policy
        return answer

    def createjobqueue(self) -> str:
        return self._with_time_limits(super().createjobqueue())

    def updatejobqueue(self) -> str:
        return self._with_time_limits(super().updatejobqueue())

    def _with_time_limits(self, answer: str) -> str:
        """Store the request's time limits, if it has any, in the queue."""
        queue: Any = self.backend.get_job_queue(json.loads(answer)["jobQueueArn"])
        actions = self._get_param("jobStateTimeLimitActions")
        if actions is not None:
            queue.state_time_limit_actions = actions
        return answer

    def describejobqueues(self) -> str:
        answer = json.loads(super().describejobqueues())
        for described in answer["jobQueues"]:
            queue: Any = self.backend.get_job_queue(described["jobQueueArn"])
            described["jobStateTimeLimitActions"] = state_time_limit_actions(queue)
            del described["schedulingPolicyArn"]
        return json.dumps(answer)

    def registerjobdefinition(self) -> str:
        self._check_timeout()
        job_definitions.check(self._request())
        return super().registerjobdefinition()

    def describejobdefinitions(self) -> str:
        answer = json.loads(super().describejobdefinitions())
        for definition in answer["jobDefinitions"]:
            model: Any = self.backend.get_job_definition_by_arn(definition["jobDefinitionArn"])
            if model.node_properties is not None:
                definition["nodeProperties"] = model.node_properties
        return json.dumps(answer)

    def submitjob(self) -> str:
        self._check_timeout()
        job = self.backend.submit(self._request())
        return json.dumps({"jobArn": job.arn, "jobName": job.submission.name, "jobId": job.id})

    def describejobs(self) -> str:
        return json.dumps({"jobs": self.backend.job_details(self._request().get("jobs") or [])})

    def listjobs(self) -> str:
        return json.dumps(self.backend.job_summaries(self._request()))

    def _check_timeout(self) -> None:
        seconds = (self._get_param("timeout") or {}).get("attemptDurationSeconds")
        if seconds is None or self.backend.settings.allow_short_limits:
            return
        if int(seconds) < MIN_TIMEOUT_SECONDS:
            raise ClientException(
                f"attemptDurationSeconds must be at least {MIN_TIMEOUT_SECONDS}, not {seconds}"
            )


@cache
def operations() -> dict[str, OperationModel]:
    """Return Batch's operations, keyed by the last part of their paths."""
    model = get_service_model("batch")
    found = map(model.operation_model, model.operation_names)
    return {operation.http["requestUri"].rpartition("/")[2]: operation for operation in found}


def check_fields(operation: OperationModel, request: dict[str, Any]) -> None:
    """Raise ClientException for the first missing or unknown field, at any depth.

    AWS's clients reject such requests before sending them.
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
    """Yield all operations' paths except those for tags; make unsupported ones refuse calls."""
    for action, operation in operations().items():
        if "{" in action:  # tags: the path names the resource
            continue
        if action in missing.OPERATIONS or not hasattr(JobsBatchResponse, action):
            setattr(JobsBatchResponse, action, refusal(operation.name))
            REFUSED.add(action)
        yield f"{{0}}{operation.http['requestUri']}$"
