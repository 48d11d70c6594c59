"""Validates a SubmitJob request, and resolves the names in it."""

from __future__ import annotations

import re
from typing import Any

from moto.batch.exceptions import ClientException

from local_cloud.batch.jobs import dependencies, overrides
from local_cloud.batch.jobs.container import Container, merge
from local_cloud.batch.jobs.dependencies import FindJob
from local_cloud.batch.jobs.job import Submission
from local_cloud.gaps.batch import job_definitions
from local_cloud.gaps.batch.backend import CompleteBatchBackend

JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
ARRAY_SIZES = range(2, 10_001)


def parse(request: dict[str, Any], backend: CompleteBatchBackend, find_job: FindJob) -> Submission:
    """Parse a SubmitJob request; raise ClientException if it is invalid or not supported."""
    name, queue = parse_name_and_queue(request, backend)
    definition = backend.find_job_definition(request["jobDefinition"])
    job_definitions.check(request)
    array_size = parse_array_size(request)
    depends_on = request.get("dependsOn") or []
    parameters = {**definition.parameters, **(request.get("parameters") or {})}
    try:
        overrides.check(request)
        dependencies.check(depends_on, array_size, find_job)
        node_properties, containers = parse_containers(request, definition, parameters)
    except ValueError as error:
        raise ClientException(str(error)) from error
    if node_properties is not None and array_size is not None:
        raise ClientException("A multi-node parallel job can't be an array job")
    return Submission(
        name=name,
        queue=queue,
        definition=definition,
        parameters=parameters,
        retry_strategy=request.get("retryStrategy") or definition.retry_strategy or {},
        timeout=request.get("timeout") or definition.timeout or {},
        depends_on=depends_on,
        container_overrides=request.get("containerOverrides") or {},
        containers=containers,
        main_node=None if node_properties is None else int(node_properties["mainNode"]),
        node_properties=node_properties,
        array_size=array_size,
    )


def parse_name_and_queue(request: dict[str, Any], backend: CompleteBatchBackend) -> tuple[str, Any]:
    for field in ("jobName", "jobQueue", "jobDefinition"):
        if not request.get(field):
            raise ClientException(f"{field} must be provided")
    name = request["jobName"]
    if JOB_NAME.fullmatch(name) is None:
        raise ClientException(f"Job name should match valid pattern {JOB_NAME.pattern}: {name!r}")
    queue = backend.get_job_queue(request["jobQueue"])
    if queue is None:
        raise ClientException(f"Job queue {request['jobQueue']} does not exist")
    if queue.state != "ENABLED":
        raise ClientException(f"Job queue {queue.name} is {queue.state}; it must be ENABLED")
    return name, queue


def parse_array_size(request: dict[str, Any]) -> int | None:
    size = (request.get("arrayProperties") or {}).get("size")
    if size is None:
        return None
    if int(size) not in ARRAY_SIZES:
        raise ClientException(f"Array size must be between 2 and 10000, not {size}")
    return int(size)


def parse_containers(
    request: dict[str, Any], definition: Any, parameters: dict[str, str]
) -> tuple[dict[str, Any] | None, list[Container]]:
    """Return the node properties (None for a single-node job) and all nodes' containers."""
    of_container = request.get("containerOverrides") or {}
    node_overrides = request.get("nodeOverrides") or {}
    if definition.node_properties is None:
        if node_overrides:
            raise ValueError("nodeOverrides is valid only for multi-node parallel jobs")
        if definition.container_properties is None:
            raise ValueError(
                "The local cloud runs only job definitions with containerProperties or "
                "nodeProperties"
            )
        return None, [merge(definition.container_properties, of_container, parameters)]
    if of_container:
        raise ValueError(
            "A multi-node parallel job must use nodeOverrides instead of containerOverrides"
        )
    properties = definition.node_properties
    num_nodes = int(node_overrides.get("numNodes") or properties["numNodes"])
    if int(properties["mainNode"]) >= num_nodes:
        raise ValueError(
            f"mainNode {properties['mainNode']} must be less than numNodes {num_nodes}"
        )
    (of_all,) = properties["nodeRangeProperties"]
    override: dict[str, Any] = {}
    for each in node_overrides.get("nodePropertyOverrides") or []:
        if each["targetNodes"] != of_all["targetNodes"]:
            raise ValueError(
                "NodeOverride targets should match job definition. Non matching targets - "
                f"{each['targetNodes']}"
            )
        override = each.get("containerOverrides") or {}
    merged = merge(of_all["container"], override, parameters)
    return {**properties, "numNodes": num_nodes}, [merged] * num_nodes
