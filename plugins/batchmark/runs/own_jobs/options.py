"""What an own job's container is submitted with."""

from __future__ import annotations

import json
from typing import Any

from batchmark.core.errors import PlanError
from batchmark.core.own_jobs import OwnJobPlan
from batchmark.runs.own_jobs import wrapper

MOST_CHARACTERS = 8192  # of RunTask's overrides, as JSON, by ECS's API reference
ROOM_FOR_BATCH = 400  # of these, for the variables that it adds


def container_overrides(plan: OwnJobPlan) -> dict[str, Any]:
    """SubmitJob's `containerOverrides`.

    Raises:
        PlanError: ECS would refuse the overrides, as they are too long.
    """
    container: dict[str, Any] = {}
    if plan.command:
        words = list(plan.command)
        container["command"] = wrapper.command(words) if plan.shell else words
    told = {
        wrapper.CHECK: plan.check,
        wrapper.OUTPUT: plan.output,
        wrapper.OUTPUT_SHA256: plan.output_sha256,
    }
    environment = plan.environment | {
        name: value for name, value in told.items() if value is not None
    }
    if environment:
        container["environment"] = [
            {"name": name, "value": value} for name, value in environment.items()
        ]
    asked = {"VCPU": plan.vcpus, "MEMORY": plan.memory_mib, "GPU": plan.gpus}
    if requirements := [
        {"type": kind, "value": f"{value:g}" if isinstance(value, float) else str(value)}
        for kind, value in asked.items()
        if value is not None
    ]:
        container["resourceRequirements"] = requirements
    characters = len(json.dumps(container)) + ROOM_FOR_BATCH
    if characters > MOST_CHARACTERS:
        raise PlanError(
            f"{plan.name}'s command, check and environment are {characters:,} characters with what "
            f"watches the job and what Batch adds, and ECS takes {MOST_CHARACTERS:,}: put a script "
            "into the image, or set shell to false"
        )
    return container
