"""Answers to HTTP requests about Batch without jobs."""

from __future__ import annotations

import json
from typing import Any

from moto.batch.exceptions import ClientException
from moto.batch.responses import BatchResponse

from local_cloud.gaps.batch import job_definitions
from local_cloud.gaps.batch.backend import CompleteBatchBackend, state_time_limit_actions

MIN_TIMEOUT_SECONDS = 60
STATE_LIMIT_SECONDS = range(600, 86_401)


class CompleteBatchResponse(BatchResponse):
    """moto's answers, with the fields that it drops; `_get_param` reads the request's JSON."""

    @property
    def backend(self) -> CompleteBatchBackend:
        backend: CompleteBatchBackend = self.batch_backend  # type: ignore[assignment]
        return backend

    def createcomputeenvironment(self) -> str:
        """Keep the update policy, too."""
        environment = self.backend.create_compute_environment(
            compute_environment_name=self._get_param("computeEnvironmentName"),
            _type=self._get_param("type"),
            state=self._get_param("state"),
            compute_resources=self._get_param("computeResources"),
            service_role=self._get_param("serviceRole"),
            tags=self._get_param("tags"),
        )
        self._keep_extra_fields(environment)
        named = {"computeEnvironmentName": environment.name}
        return json.dumps({"computeEnvironmentArn": environment.arn, **named})

    def updatecomputeenvironment(self) -> str:
        """Also change the update policy."""
        name, arn = self.backend.update_compute_environment(
            compute_environment_name=self._get_param("computeEnvironment"),
            state=self._get_param("state"),
            compute_resources=self._get_param("computeResources"),
            service_role=self._get_param("serviceRole"),
        )
        self._keep_extra_fields(self.backend.get_compute_environment(arn))
        return json.dumps({"computeEnvironmentArn": arn, "computeEnvironmentName": name})

    def _keep_extra_fields(self, environment: Any) -> None:
        update_policy = self._get_param("updatePolicy")
        if update_policy:
            environment.update_policy = update_policy

    def createjobqueue(self) -> str:
        actions = self._checked_state_limits()
        answer = super().createjobqueue()
        self._queue(json.loads(answer)["jobQueueArn"]).state_time_limit_actions = actions or []
        return answer

    def updatejobqueue(self) -> str:
        """Also change the queue's time limits, if any are sent."""
        actions = self._checked_state_limits()
        answer = super().updatejobqueue()
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

    def _checked_state_limits(self) -> list[dict[str, Any]] | None:
        actions: list[dict[str, Any]] | None = self._get_param("jobStateTimeLimitActions")
        for action in actions or []:
            seconds = int(action["maxTimeSeconds"])
            if seconds not in STATE_LIMIT_SECONDS and not self.short_limits_allowed():
                raise ClientException(
                    f"maxTimeSeconds must be between {STATE_LIMIT_SECONDS.start} and "
                    f"{STATE_LIMIT_SECONDS.stop - 1}, not {seconds}"
                )
        return actions

    def _check_timeout(self) -> None:
        seconds = (self._get_param("timeout") or {}).get("attemptDurationSeconds")
        if seconds is None or self.short_limits_allowed():
            return
        if int(seconds) < MIN_TIMEOUT_SECONDS:
            raise ClientException(
                f"attemptDurationSeconds must be at least {MIN_TIMEOUT_SECONDS}, not {seconds}"
            )
