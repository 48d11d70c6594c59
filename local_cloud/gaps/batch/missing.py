"""Refuses Batch operations and fields that the local cloud does not support."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moto.batch.exceptions import ClientException

# By the last part of their paths; moto has these, but would only pretend.
OPERATIONS = (
    "createschedulingpolicy",
    "deleteschedulingpolicy",
    "describeschedulingpolicies",
    "listschedulingpolicies",
    "updateschedulingpolicy",
)
FIELDS = (
    "arrayJobId",
    "consumableResourceProperties",
    "consumableResourcePropertiesOverride",
    "ecsProperties",
    "ecsPropertiesOverride",
    "eksConfiguration",
    "eksPropertiesOverride",
    "multiNodeJobId",
    "schedulingPolicyArn",
    "schedulingPriority",
    "schedulingPriorityOverride",
    "shareIdentifier",
    "unmanagedvCpus",
)


def refusal(what: str) -> ClientException:
    return ClientException(
        f"The local cloud does not support {what}: see Batch in local_cloud/README.md"
    )


def check(request: Mapping[str, Any]) -> None:
    """Raise ClientException if the request has an unsupported field, naming the first one."""
    for field in FIELDS:
        if request.get(field) is not None:
            raise refusal(field)
