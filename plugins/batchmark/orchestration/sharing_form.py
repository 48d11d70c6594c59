"""The fields of gpu_sharing_benchmark's form that say what shares a device, and how."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from airflow.sdk import Param

from batchmark.core.suites import (
    DISTURBANCES,
    MOST_REPLICAS,
    OWN_TASK,
    REPLICAS,
    SHARING_MODES,
    TASK,
    TASK_AXES,
    TASKS,
)

TASK_SECTION, SHARING_SECTION = "The task", "How it shares"


def sharing_params() -> dict[str, Param]:
    """Return the fields; scheduled runs take their defaults."""
    return {
        "task": Param(
            TASK,
            type="string",
            minLength=1,
            examples=list(TASKS),
            section=TASK_SECTION,
            description=f"What each replica runs: a workload of the suites, or {OWN_TASK}NAME for "
            "one of your own.",
        ),
        "axes": Param(
            TASK_AXES,
            type=["string", "null"],
            section=TASK_SECTION,
            description="Its size, as NAME=N; several with spaces between them. Empty for the "
            "sizes that a workload of your own has by default.",
        ),
        "modes": _choices(
            [mode.value for mode in SHARING_MODES],
            SHARING_MODES,
            "How the replicas share the device. A target whose jobs share an instance measures "
            "its own mode alone.",
        ),
        "replicas": Param(
            list(REPLICAS),
            type="array",
            items={"type": "integer", "minimum": 1, "maximum": MOST_REPLICAS},
            minItems=1,
            section=SHARING_SECTION,
            description="How many share it at once, one number per line. Include 1: the others "
            "are compared with it.",
        ),
        "disturbances": _choices(
            [],
            DISTURBANCES,
            "Experiments of their own: what one replica does while others share the device with "
            "it. None by default.",
        ),
        "mps_threads": _limit("Per cent of the GPU's threads for each client of MPS", 100),
        "mps_memory_mib": _limit("Mebibytes of GPU memory for each client of MPS"),
    }


def _limit(description: str, most: int | None = None) -> Param:
    bounds: dict[str, Any] = {"minimum": 1} | ({} if most is None else {"maximum": most})
    return Param(
        None,
        type=["integer", "null"],
        section=SHARING_SECTION,
        description=f"{description}. Empty for no limit.",
        **bounds,
    )


def _choices(default: list[str], known: Mapping[Any, str], description: str) -> Param:
    """A field to choose several from."""
    names = [name.value for name in known if isinstance(name, StrEnum)]
    return Param(
        default,
        type="array" if default else ["array", "null"],
        items={"type": "string", "enum": names},
        examples=names,
        values_display={name: f"{name}: {says}" for name, says in known.items()},
        section=SHARING_SECTION,
        description=description,
    )
