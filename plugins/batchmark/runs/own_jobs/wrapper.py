"""Builds container overrides for users' own jobs, with the shell script around the command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from batchmark.core.errors import PlanError
from batchmark.core.own_jobs import OwnJobPlan

CHECK = "BATCHMARK_CHECK"  # a shell command that runs after the job's
OUTPUT = "BATCHMARK_OUTPUT"  # the path of a file, whose SHA-256 is told
OUTPUT_SHA256 = "BATCHMARK_OUTPUT_SHA256"  # that it must have, in lower case
MOST_CHARACTERS = 8192  # of RunTask's overrides, as JSON, by ECS's API reference
ROOM_FOR_BATCH = 400  # of these, for the variables that it adds


@cache
def script() -> str:
    """Return `wrapper.sh` minified, because a job's overrides are limited to 8,192 characters."""
    lines = map(str.strip, Path(__file__).with_suffix(".sh").read_text().splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def command(words: Sequence[str]) -> list[str]:
    """Return the command that runs the job's own command inside the wrapper.

    Raises:
        ValueError: the command is empty; an image's default command can't be known.
    """
    if not words:
        raise ValueError(
            "no command was specified, and the image's default command is unknown: specify one, "
            "or set shell=false"
        )
    return ["sh", "-c", script(), "sh", *words]


def container_overrides(plan: OwnJobPlan) -> dict[str, Any]:
    """Build SubmitJob's `containerOverrides`.

    Raises:
        PlanError: the overrides are too long for ECS.
    """
    container: dict[str, Any] = {}
    if plan.command:
        container["command"] = command(plan.command) if plan.shell else list(plan.command)
    told = {CHECK: plan.check, OUTPUT: plan.output, OUTPUT_SHA256: plan.output_sha256}
    environment = [
        {"name": name, "value": value}
        for name, value in (plan.environment | told).items()
        if value is not None
    ]
    if environment:
        container["environment"] = environment
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
            f"{plan.name}'s command, check and environment total {characters:,} characters, "
            "including the wrapper and Batch's additions, but ECS allows only "
            f"{MOST_CHARACTERS:,}: put a script into the image, or set shell to false"
        )
    return container
