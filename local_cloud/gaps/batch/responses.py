"""Answers to HTTP requests about Batch without jobs."""

from __future__ import annotations

import json
from typing import Any

from moto.batch.exceptions import ClientException
from moto.batch.responses import BatchResponse

from local_cloud.gaps.batch import job_definitions
from local_cloud.gaps.batch.backend import CompleteBatchBackend, state_time_limit_actions

MIN_TIMEOUT_SECONDS = 60


class CompleteBatchResponse(BatchResponse):
    """moto's answers, with the fields that it drops; `_get_param` reads the request's JSON."""

    @property
    def backend(self) -> CompleteBatchBackend:
        backend: CompleteBatchBackend = self.batch_backend  # type: ignore[assignment]
        return backend

    def createcomputeenvironment(self) -> str:
        return self._with_update_policy(super().createcomputeenvironment())

    def updatecomputeenvironment(self) -> str:
        return self._with_update_policy(super().updatecomputeenvironment())

    def _with_update_policy(self, answer: str) -> str:
        """The answer, once the environment in it has the policy that is sent, if one is."""
        arn = json.loads(answer)["computeEnvironmentArn"]
        environment: Any = self.backend.get_compute_environment(arn)
        if update_policy := self._get_param("updatePolicy"):
            environment.update_policy = update_policy
        return answer

    def createjobqueue(self) -> str:
        answer = super().createjobqueue()
        actions = self._get_param("jobStateTimeLimitActions")
        self._queue(json.loads(answer)["jobQueueArn"]).state_time_limit_actions = actions or []
        return answer

    def updatejobqueue(self) -> str:
        """Also change the queue's time limits, if any are sent."""
        answer = super().updatejobqueue()
        actions = self._get_param("jobStateTimeLimitActions")
        if actions is not None:
            self._queue(self._get_param("jobQueue")).state_time_limit_actions = actions
        return answer

    def describejobqueues(self) -> str:
        answer = json.loads(super().describejobqueues())
        for queue in answer["jobQueues"]:
            queue["jobStateTimeLimitActions"] = state_time_limit_actions(
                self._queue(queue["jobQueueArn"])
            )
            del queue["schedulingPolicyArn"]
        return json.dumps(answer)

    def registerjobdefinition(self) -> str:
        """Check first what moto does not."""
        self._check_timeout()
        job_definitions.check(json.loads(self.body))
        return super().registerjobdefinition()

    def describejobdefinitions(self) -> str:
        answer = json.loads(super().describejobdefinitions())
        for definition in answer["jobDefinitions"]:
            model: Any = self.backend.get_job_definition_by_arn(definition["jobDefinitionArn"])
            if model.node_properties is not None:
                definition["nodeProperties"] = model.node_properties
        return json.dumps(answer)

    def _queue(self, identifier: str) -> Any:
        return self.backend.get_job_queue(identifier)

    def short_limits_allowed(self) -> bool:
        """Whether limits below AWS's minimum are allowed; see `--allow-short-limits`."""
        return False

    def _check_timeout(self) -> None:
        seconds = (self._get_param("timeout") or {}).get("attemptDurationSeconds")
        if seconds is None or self.short_limits_allowed():
            return
        if int(seconds) < MIN_TIMEOUT_SECONDS:
            raise ClientException(
                f"attemptDurationSeconds must be at least {MIN_TIMEOUT_SECONDS}, not {seconds}"
            )
