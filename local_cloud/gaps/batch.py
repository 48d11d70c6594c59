"""Batch without jobs: compute environments, job queues and job definitions, as sent."""

from __future__ import annotations

import json
from typing import Any

from moto.batch.exceptions import ClientException
from moto.batch.models import (
    BatchBackend,
    ComputeEnvironment,
    JobDefinition,
    JobQueue,
    batch_backends,
)
from moto.batch.responses import BatchResponse
from moto.iam.exceptions import NotFoundException

SERVICE_LINKED_ROLE = "AWSServiceRoleForBatch"
MIN_TIMEOUT_SECONDS = 60
STATE_LIMIT_SECONDS = range(600, 86_401)


class CompleteBatchBackend(BatchBackend):
    """moto's backend, with the fields that it drops."""

    def service_linked_role_arn(self) -> str:
        """The role of compute environments that name none; created on first use."""
        try:
            return str(self.iam_backend.get_role(SERVICE_LINKED_ROLE).arn)
        except NotFoundException:
            role = self.iam_backend.create_service_linked_role("batch.amazonaws.com", "", "")
            return str(role.arn)

    def create_compute_environment(self, *args: Any, **fields: Any) -> ComputeEnvironment:
        """Name its cluster after it: AWS does, and policies rely on it."""
        environment = super().create_compute_environment(*args, **fields)
        name = f"{environment.name}_Batch_{environment.ecs_name.rpartition('_')[2]}"
        self.ecs_backend.clusters.pop(environment.ecs_name)
        environment.set_ecs(self.ecs_backend.create_cluster(name).arn, name)
        return environment

    def describe_compute_environments(
        self, environments: list[str] | None = None
    ) -> list[dict[str, Any]]:
        described = super().describe_compute_environments(environments)
        for environment in described:
            model = self._compute_environments[environment["computeEnvironmentArn"]]
            environment.update(extra_fields(model))
        return described

    def delete_compute_environment(self, compute_environment_name: str) -> None:
        """As in AWS, refuse while it is enabled or used by a queue."""
        environment = self.get_compute_environment(compute_environment_name)
        if environment is not None:
            if environment.state != "DISABLED":
                raise ClientException("Cannot delete, Compute Environment must be DISABLED first")
            if any(environment in queue.environments for queue in self._job_queues.values()):
                raise ClientException("Cannot delete, found existing JobQueue relationship")
        super().delete_compute_environment(compute_environment_name)
        if environment is not None:
            # moto would still list the deleted cluster, as INACTIVE.
            self.ecs_backend.clusters.pop(environment.ecs_name, None)

    def delete_job_queue(self, queue_name: str) -> None:
        """As in AWS, refuse while it is enabled."""
        queue = self.get_job_queue(queue_name)
        if queue is not None and queue.state != "DISABLED":
            raise ClientException("Cannot delete, Job Queue must be DISABLED first")
        super().delete_job_queue(queue_name)

    def register_job_definition(self, *args: Any, **fields: Any) -> JobDefinition:
        """Set a new revision's fields as sent: moto inherits them from its predecessor."""
        definition = super().register_job_definition(*args, **fields)
        definition.parameters = fields["parameters"] or {}
        definition.retry_strategy = fields["retry_strategy"]
        definition.platform_capabilities = fields["platform_capabilities"]
        definition.propagate_tags = fields["propagate_tags"]
        return definition

    def find_job_definition(self, identifier: str) -> JobDefinition:
        """A definition by ARN or name; without a revision, the latest active one."""
        name, _, revision = identifier.rpartition("job-definition/")[2].partition(":")
        found = [
            definition
            for definition in self._job_definitions.values()
            if definition.name == name
            and definition.status == "ACTIVE"
            and revision in ("", str(definition.revision))
        ]
        if not found:
            raise ClientException(f"Job definition {identifier} does not exist or is not ACTIVE")
        return max(found, key=lambda definition: definition.revision)


class CompleteBatchResponse(BatchResponse):
    """moto's answers, with the fields that it drops; `_get_param` reads the request's JSON."""

    @property
    def backend(self) -> CompleteBatchBackend:
        backend: CompleteBatchBackend = self.batch_backend  # type: ignore[assignment]
        return backend

    def createcomputeenvironment(self) -> str:
        """Default to the service-linked role; keep the update policy."""
        environment = self.backend.create_compute_environment(
            compute_environment_name=self._get_param("computeEnvironmentName"),
            _type=self._get_param("type"),
            state=self._get_param("state", "ENABLED"),
            compute_resources=self._get_param("computeResources"),
            service_role=self._get_param("serviceRole") or self.backend.service_linked_role_arn(),
            tags=self._get_param("tags"),
        )
        self._keep_extra_fields(environment)
        named = {"computeEnvironmentName": environment.name}
        return json.dumps({"computeEnvironmentArn": environment.arn, **named})

    def updatecomputeenvironment(self) -> str:
        """Also change compute resources and update policy."""
        answer = super().updatecomputeenvironment()
        environment = self.backend.get_compute_environment(self._get_param("computeEnvironment"))
        if environment is not None:
            environment.compute_resources.update(self._get_param("computeResources") or {})
            self._keep_extra_fields(environment)
        return answer

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
        return json.dumps(answer)

    def registerjobdefinition(self) -> str:
        self._check_timeout()
        return super().registerjobdefinition()

    def describejobdefinitions(self) -> str:
        answer = json.loads(super().describejobdefinitions())
        for definition in answer["jobDefinitions"]:
            model = self.backend.get_job_definition_by_arn(definition["jobDefinitionArn"])
            if model is not None and model.node_properties is not None:
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


def used_backends() -> list[Any]:
    """The Batch backends of all accounts and regions that were ever used."""
    return [backend for regions in batch_backends.values() for backend in regions.values()]


def extra_fields(environment: ComputeEnvironment) -> dict[str, Any]:
    fields: dict[str, Any] = {"containerOrchestrationType": "ECS"}
    if update_policy := getattr(environment, "update_policy", None):
        fields["updatePolicy"] = update_policy
    if reason := invalid_reason(environment):
        fields |= {"status": "INVALID", "statusReason": reason}
    return fields


def invalid_reason(environment: ComputeEnvironment) -> str | None:
    """Why a compute environment is INVALID; None unless a fault makes it so."""
    reason: str | None = getattr(environment, "invalid_reason", None)
    return reason


def state_time_limit_actions(queue: JobQueue) -> list[dict[str, Any]]:
    actions: list[dict[str, Any]] = getattr(queue, "state_time_limit_actions", [])
    return actions
