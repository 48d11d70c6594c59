"""The fields of distributed_training_benchmark's form, beside those that all runs have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param

from batchmark.core.suites import (
    ALL_REDUCE_MIB,
    DATA_SOURCES,
    IMAGES_OF_RATE,
    NODE_COUNTS,
    OWN_DTYPES,
)
from batchmark.runs.plans.scaling_plan import (
    DTYPES,
    LEAST,
    LEAST_IMAGE,
    MOST,
    MOST_IMAGE,
    MOST_VARIANTS,
    Wanted,
)
from batchmark_job.result.scaling import TrainingSettings

NODES_SECTION, STEP_SECTION, TRAINING_SECTION = "Nodes", "A step", "The training"


def scaling_params() -> dict[str, Param]:
    """Return the fields; scheduled runs take their defaults."""
    return {
        "node_counts": Param(
            list(NODE_COUNTS),
            type="array",
            items=_number("node_counts"),
            minItems=1,
            section=NODES_SECTION,
            description="How many nodes train together, one number per line: a job for each, one "
            "after the other. Include 1: the others are compared with it.",
        ),
        "devices": Param(
            None,
            **_number("devices") | {"type": ["integer", "null"]},
            section=NODES_SECTION,
            description="GPUs of each node, or processes on its CPU. Empty for all its GPUs, and "
            "for one process on a CPU.",
        ),
        "strong_scaling": Param(
            True,
            type="boolean",
            section=NODES_SECTION,
            description="Also measure the batch that keeps the images of all devices together at "
            "those of the fewest nodes.",
        ),
        "batch": Param(
            64,
            **_number("batch"),
            section=STEP_SECTION,
            description="Images of each device at each step.",
        ),
        "image": Param(
            224,
            type="integer",
            minimum=LEAST_IMAGE,
            maximum=MOST_IMAGE,
            section=STEP_SECTION,
            description="Width and height of an image in pixels.",
        ),
        "dtype": Param(
            OWN_DTYPES,
            enum=[OWN_DTYPES, *DTYPES],
            values_display={OWN_DTYPES: "suite: bfloat16 on GPUs, float32 on CPUs"},
            section=STEP_SECTION,
            description="Number format of the training; weights stay float32.",
        ),
        "steps": Param(
            50,
            **_number("steps"),
            section=STEP_SECTION,
            description="Steps that are measured, of each row that trains.",
        ),
        "data": Param(
            list(DATA_SOURCES),
            type="array",
            items={"type": "string", "enum": list(DATA_SOURCES)},
            minItems=1,
            examples=list(DATA_SOURCES),
            values_display={name: f"{name}: {says}" for name, says in DATA_SOURCES.items()},
            section=STEP_SECTION,
            description="Where images come from. Without files, no file system is stood up.",
        ),
        "all_reduce_mib": Param(
            list(ALL_REDUCE_MIB),
            type=["array", "null"],
            items=_number("all_reduce_mib"),
            section=STEP_SECTION,
            description="Mebibytes that all ranks sum in a test of its own, one number per line. "
            "Empty for none.",
        ),
        **_settings(),
        "study": Param(
            [],
            type=["array", "null"],
            items={"type": "object"},
            maxItems=MOST_VARIANTS,
            section=TRAINING_SECTION,
            description="Variants of the settings above, such as "
            '[{"learning_rate": 0.05}, {"learning_rate": 0.2}]: each a job of its own on the most '
            "nodes.",
        ),
    }


def wanted(params: Mapping[str, Any]) -> Wanted:
    """What a filled-in form asks for."""
    return Wanted(
        node_counts=params["node_counts"],
        devices=params["devices"],
        strong=params["strong_scaling"],
        batch=params["batch"],
        image=params["image"],
        dtype=params["dtype"],
        steps=params["steps"],
        data=params["data"],
        all_reduce_mib=params["all_reduce_mib"] or [],
        settings={name: params[name] for name in TrainingSettings.model_fields},
        study=params["study"] or [],
        repeats=params["repeats"],
    )


def _settings() -> dict[str, Param]:
    """The hyper-parameters; the job's own record says what values they may have."""
    said = {
        "learning_rate": (
            0.1,
            f"For {IMAGES_OF_RATE} images per step, after the warm-up. It is multiplied by the "
            f"images of all devices / {IMAGES_OF_RATE}: the linear scaling rule.",
        ),
        "momentum": (0.9, "Of stochastic gradient descent."),
        "weight_decay": (5e-5, "Of stochastic gradient descent."),
        "epochs": (90, "Over which the rate falls to nothing, as a square."),
        "warmup_epochs": (10, "Over which the rate rises first."),
        "images_per_epoch": (1_281_167, "ImageNet has 1,281,167."),
    }
    return {
        name: Param(
            default,
            type="integer" if isinstance(default, int) else "number",
            minimum=0,
            section=TRAINING_SECTION,
            description=text,
        )
        for name, (default, text) in said.items()
    }


def _number(field: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": LEAST.get(field, 1), "maximum": MOST[field]}
