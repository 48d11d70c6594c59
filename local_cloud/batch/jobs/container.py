"""A job's container: the job definition's properties plus the submission's overrides."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from local_cloud.batch.jobs.resources import Requirements

PLACEHOLDER = re.compile(r"Ref::([A-Za-z0-9_-]+)")  # placeholder of a parameter in a command


@dataclass(frozen=True)
class Container:
    """One node's container, with properties, overrides and parameters merged."""

    properties: dict[str, Any]
    command: list[str]
    environment: dict[str, str]
    requirements: Requirements
    # resource kinds requested only through the old vcpus and memory fields
    old_fields: frozenset[str] = frozenset()

    @property
    def sees_all_gpus(self) -> bool:
        """Whether the container requests no GPUs but sees all (NVIDIA_VISIBLE_DEVICES is `all`)."""
        asks = self.environment.get("NVIDIA_VISIBLE_DEVICES") == "all"
        return asks and self.requirements.gpus == 0

    @property
    def log_group(self) -> str:
        return str(self._log_options().get("awslogs-group", "/aws/batch/job"))

    def log_stream_prefix(self, job_definition_name: str) -> str:
        return str(self._log_options().get("awslogs-stream-prefix", job_definition_name))

    def _log_options(self) -> dict[str, Any]:
        return (self.properties.get("logConfiguration") or {}).get("options") or {}


def merge(
    properties: dict[str, Any], overrides: dict[str, Any], parameters: dict[str, str]
) -> Container:
    """Apply a submission's overrides and parameters to a definition's container properties."""
    environment = {
        item["name"]: item.get("value", "")
        for source in (properties, overrides)
        for item in source.get("environment") or []
    }
    command = overrides.get("command") or properties.get("command") or []
    return Container(
        properties=properties,
        command=substitute(command, parameters),
        environment=environment,
        requirements=requirements(properties, overrides),
        old_fields=frozenset(
            old_fields(properties, overrides).keys() - new_fields(properties, overrides).keys()
        ),
    )


def substitute(command: Sequence[str], parameters: Mapping[str, str]) -> list[str]:
    """Fill in the parameters; as in AWS, placeholders without a parameter are kept."""
    return [
        PLACEHOLDER.sub(lambda match: parameters.get(match[1], match[0]), word) for word in command
    ]


def old_fields(*sources: dict[str, Any]) -> dict[str, Any]:
    return {
        kind: source[key]
        for source in sources
        for kind, key in (("VCPU", "vcpus"), ("MEMORY", "memory"))
        if source.get(key)
    }


def new_fields(*sources: dict[str, Any]) -> dict[str, Any]:
    return {
        item["type"]: item["value"]
        for source in sources
        for item in source.get("resourceRequirements") or []
    }


def requirements(properties: dict[str, Any], overrides: dict[str, Any]) -> Requirements:
    """Return what a container requires; resourceRequirements override legacy vcpus and memory."""
    needed = {**old_fields(properties, overrides), **new_fields(properties, overrides)}
    return Requirements(
        vcpus=float(needed.get("VCPU", 1)),
        memory_mib=int(needed.get("MEMORY", 4)),
        gpus=int(needed.get("GPU", 0)),
    )
