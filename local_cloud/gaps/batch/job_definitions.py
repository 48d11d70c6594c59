"""Checks job definitions and submissions as AWS does, and manages their ECS task definitions."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from moto.batch.exceptions import ClientException
from moto.batch.models import JobDefinition
from moto.ecs.models import EC2ContainerServiceBackend

from local_cloud.gaps.batch import missing

ATTEMPTS = range(1, 11)
MAX_RULES = 5  # limit of evaluateOnExit
ACTIONS = ("RETRY", "EXIT")
NUMBERS_OF_NODES = range(1, 1001)
ALL_NODES = "0:"
RESERVED_VARIABLES = "AWS_BATCH"


def check(request: dict[str, Any]) -> None:
    """Raise ClientException if a RegisterJobDefinition or SubmitJob call has an invalid field."""
    check_retry_strategy(request.get("retryStrategy") or {})
    if nodes := request.get("nodeProperties"):
        check_nodes(nodes)
    check_number_of_nodes((request.get("nodeOverrides") or {}).get("numNodes"))
    for container in containers(request):
        check_environment(container)


def check_retry_strategy(strategy: dict[str, Any]) -> None:
    attempts, rules = strategy.get("attempts"), strategy.get("evaluateOnExit") or []
    if attempts is not None and int(attempts) not in ATTEMPTS:
        raise ClientException(f"retryStrategy.attempts must be between 1 and 10, not {attempts}")
    if rules and attempts is None:
        raise ClientException(
            "retryStrategy.attempts must be provided when evaluateOnExit is specified"
        )
    if len(rules) > MAX_RULES:
        raise ClientException(
            f"retryStrategy.evaluateOnExit can have at most {MAX_RULES} rules, not {len(rules)}"
        )
    for rule in rules:
        if str(rule.get("action")).upper() not in ACTIONS:
            raise ClientException(
                f"evaluateOnExit.action must be one of {' | '.join(ACTIONS)}, "
                f"not {rule.get('action')}"
            )


def check_nodes(nodes: dict[str, Any]) -> None:
    count, main = nodes["numNodes"], nodes["mainNode"]
    check_number_of_nodes(count)
    if not 0 <= int(main) < int(count):
        raise ClientException(f"mainNode {main} must be less than numNodes {count}")
    if [each["targetNodes"] for each in nodes["nodeRangeProperties"]] != [ALL_NODES]:
        raise missing.refusal(f'node ranges other than "{ALL_NODES}"')


def check_number_of_nodes(count: Any) -> None:
    if count is not None and int(count) not in NUMBERS_OF_NODES:
        raise ClientException(
            f"numNodes must be between {NUMBERS_OF_NODES.start} and {NUMBERS_OF_NODES.stop - 1}, "
            f"not {count}"
        )


def containers(request: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield the properties or overrides of each container in a request."""
    nodes = request.get("nodeProperties") or {}
    overrides = request.get("nodeOverrides") or {}
    yield request.get("containerProperties") or {}
    yield request.get("containerOverrides") or {}
    for node_range in nodes.get("nodeRangeProperties") or []:
        yield node_range.get("container") or {}
    for override in overrides.get("nodePropertyOverrides") or []:
        yield override.get("containerOverrides") or {}


def check_environment(container: dict[str, Any]) -> None:
    for variable in container.get("environment") or []:
        name = variable.get("name") or ""
        if name.startswith(RESERVED_VARIABLES):
            raise ClientException(
                "Environment variable names can't start with the reserved prefix "
                f"{RESERVED_VARIABLES}: {name}"
            )


def register_task_definition(ecs: EC2ContainerServiceBackend, definition: Any) -> None:
    """Register an ECS task definition for a job definition, unless that is for multi-node jobs."""
    properties = definition.container_properties
    if properties is None:
        return
    container = {
        "name": "default",
        "image": properties["image"],
        "command": properties["command"],
        "environment": properties["environment"],
        "mountPoints": properties["mountPoints"],
        "memory": definition._get_resource_requirement("memory"),
        "cpu": int(definition._get_resource_requirement("vcpus") * 1024),
        "essential": True,
    }
    registered = ecs.register_task_definition(
        family=definition.name,
        container_definitions=[container],
        volumes=copy.deepcopy(properties["volumes"]),  # moto fills in defaults
        task_role_arn=properties.get("jobRoleArn"),
        execution_role_arn=properties.get("executionRoleArn"),
    )
    definition.task_definition = registered.arn


def deregister_task_definition(ecs: EC2ContainerServiceBackend, definition: JobDefinition) -> None:
    arn = getattr(definition, "task_definition", None)
    if arn is not None:
        ecs.deregister_task_definition(arn)
