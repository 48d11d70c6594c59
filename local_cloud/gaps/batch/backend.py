"""Stores Batch's compute environments, queues and job definitions as requested."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from moto.batch.exceptions import ClientException
from moto.batch.models import (
    BatchBackend,
    ComputeEnvironment,
    JobDefinition,
    JobQueue,
    batch_backends,
)
from moto.iam.exceptions import EntityAlreadyExists, NotFoundException
from moto.moto_api._internal import mock_random

from local_cloud.faults.kinds import InvalidEnvironment
from local_cloud.faults.under_way import active_faults
from local_cloud.gaps.batch import compute_environments, job_definitions, missing

SERVICE_LINKED_ROLE = "AWSServiceRoleForBatch"


class CompleteBatchBackend(BatchBackend):
    """Extends moto's Batch backend by checking requests and keeping fields that moto drops."""

    def service_linked_role_arn(self) -> str:
        """Return the role for environments without a service role, creating it on first use."""
        try:
            return str(self.iam_backend.get_role(SERVICE_LINKED_ROLE).arn)
        except NotFoundException:
            # Terraform requests several environments at once.
            with suppress(EntityAlreadyExists):
                self.iam_backend.create_service_linked_role("batch.amazonaws.com", "", "")
            return str(self.iam_backend.get_role(SERVICE_LINKED_ROLE).arn)

    def create_compute_environment(
        self,
        compute_environment_name: str,
        _type: str,
        state: str | None,
        compute_resources: dict[str, Any] | None,
        service_role: str | None,
        tags: dict[str, str] | None = None,
    ) -> ComputeEnvironment:
        """Create an environment without instances, but with a cluster that is named as in AWS."""
        name, state = compute_environment_name, state or "ENABLED"
        if self.get_compute_environment(name) is not None:
            raise ClientException(f"Compute environment {name} already exists")
        if _type == "UNMANAGED":
            raise missing.refusal("UNMANAGED compute environments")
        if compute_resources is None:
            raise ClientException("computeResources must be provided for type MANAGED")
        compute_environments.check_resources(self, compute_resources)
        role = (
            compute_environments.role_arn(self, service_role)
            if service_role
            else self.service_linked_role_arn()
        )
        made: Any = ComputeEnvironment
        environment: ComputeEnvironment = made(
            name, _type, state, compute_resources, role, self.account_id, self.region_name
        )
        cluster = f"{name}_Batch_{mock_random.uuid4()}"
        environment.set_ecs(self.ecs_backend.create_cluster(cluster).arn, cluster)
        self._compute_environments[environment.arn] = environment
        if tags:
            self.tag_resource(environment.arn, tags)
        return environment

    def describe_compute_environments(
        self, environments: list[str] | None = None
    ) -> list[dict[str, Any]]:
        described = super().describe_compute_environments(environments)
        for environment in described:
            model = self._compute_environments[environment["computeEnvironmentArn"]]
            reason = invalid_reason(model)
            environment["containerOrchestrationType"] = "ECS"
            environment["statusReason"] = reason or "ComputeEnvironment Healthy"
            if reason:
                environment["status"] = "INVALID"
            if update_policy := getattr(model, "update_policy", None):
                environment["updatePolicy"] = update_policy
        return described

    def update_compute_environment(
        self,
        compute_environment_name: str,
        state: str | None,
        compute_resources: dict[str, Any] | None,
        service_role: str | None,
    ) -> tuple[str, str]:
        """Update an environment fully or not at all; unlike moto, update its resources as well."""
        environment = self.get_compute_environment(compute_environment_name)
        if environment is None:
            raise ClientException(f"Compute environment {compute_environment_name} does not exist")
        resources = {**environment.compute_resources, **(compute_resources or {})}
        if compute_resources:
            compute_environments.check_resources(self, resources)
        if service_role:
            environment.service_role = compute_environments.role_arn(self, service_role)
        environment.compute_resources = resources
        environment.state = state or environment.state
        return environment.name, environment.arn

    def delete_compute_environment(self, compute_environment_name: str) -> None:
        """Delete an environment; as in AWS, it must be disabled and not used by a queue."""
        environment = self.get_compute_environment(compute_environment_name)
        if environment is None:
            return
        if environment.state != "DISABLED":
            raise ClientException("Cannot delete, Compute Environment must be DISABLED first")
        if any(environment in queue.environments for queue in self._job_queues.values()):
            raise ClientException("Cannot delete, found existing JobQueue relationship")
        del self._compute_environments[environment.arn]
        self.ecs_backend.clusters.pop(environment.ecs_name, None)

    def create_job_queue(
        self,
        queue_name: str,
        priority: str,
        schedule_policy: str | None,
        state: str | None,
        compute_env_order: list[dict[str, Any]],
        tags: dict[str, str] | None = None,
    ) -> JobQueue:
        return super().create_job_queue(
            queue_name,
            priority,
            schedule_policy,
            state or "ENABLED",
            self._resolved(compute_env_order or []),
            tags,
        )

    def update_job_queue(
        self,
        queue_name: str,
        priority: str | None,
        state: str | None,
        compute_env_order: list[dict[str, Any]] | None,
        schedule_policy: str | None,
    ) -> tuple[str, str]:
        queue = self.get_job_queue(queue_name)
        if queue is None:
            raise ClientException(f"Job queue {queue_name} does not exist")
        order = None if compute_env_order is None else self._resolved(compute_env_order)
        super().update_job_queue(queue.name, priority, state, order, schedule_policy)
        return queue.name, queue.arn

    def _resolved(self, order: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return a computeEnvironmentOrder with ARNs instead of names, as AWS returns it."""
        if not order:
            raise ClientException("At least 1 compute environment must be provided")
        resolved = []
        for item in order:
            environment = self.get_compute_environment(item["computeEnvironment"])
            if environment is None:
                raise ClientException(
                    f"Compute environment {item['computeEnvironment']} does not exist"
                )
            resolved.append({"order": item["order"], "computeEnvironment": environment.arn})
        return resolved

    def delete_job_queue(self, queue_name: str) -> None:
        """Delete a queue; as in AWS, it must be disabled first."""
        queue = self.get_job_queue(queue_name)
        if queue is not None and queue.state != "DISABLED":
            raise ClientException("Cannot delete, Job Queue must be DISABLED first")
        super().delete_job_queue(queue_name)

    def register_job_definition(self, *args: Any, **fields: Any) -> JobDefinition:
        """Store a new revision's fields as sent; moto would copy them from the previous one."""
        definition = super().register_job_definition(*args, **fields)
        definition.parameters = fields["parameters"] or {}
        definition.retry_strategy = fields["retry_strategy"]
        definition.platform_capabilities = fields["platform_capabilities"]
        definition.propagate_tags = fields["propagate_tags"]
        job_definitions.register_task_definition(self.ecs_backend, definition)
        return definition

    def deregister_job_definition(self, def_name: str) -> None:
        """Deregister a job definition and the corresponding ECS task definition."""
        for definition in self._job_definitions.values():
            if def_name in (definition.arn, f"{definition.name}:{definition.revision}"):
                definition.deregister()
                job_definitions.deregister_task_definition(self.ecs_backend, definition)

    def find_job_definition(self, identifier: str) -> JobDefinition:
        """Find an active definition by ARN or name; take the latest revision if none is given."""
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


def used_backends() -> list[Any]:
    """Return the Batch backends for all accounts and regions used so far."""
    return [backend for regions in batch_backends.values() for backend in regions.values()]


def invalid_reason(environment: ComputeEnvironment) -> str | None:
    """Return why a compute environment is INVALID, or None if no fault makes it INVALID."""
    covering = (f for _, f in active_faults(InvalidEnvironment) if f.covers(environment.name))
    return next((fault.reason for fault in covering), None)


def state_time_limit_actions(queue: JobQueue) -> list[dict[str, Any]]:
    return getattr(queue, "state_time_limit_actions", None) or []
