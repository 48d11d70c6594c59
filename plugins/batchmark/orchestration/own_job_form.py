"""The fields of the forms of own_job_benchmark and job_comparison."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import Param

from batchmark.core.own_jobs import MOST_SIZES, NAME_PATTERN, PARAMETER_PATTERN
from batchmark.orchestration import dag_parts
from batchmark.runs.own_jobs.sides import MOST_SIDES
from batchmark.runs.plans.own_job_plan import MOST_SECONDS, MOST_SIZE, REPEATS

# Asking AWS here would hold up whoever parses DAGs.
OWN_JOBS_VARIABLE = "BATCHMARK_OWN_JOBS"
MAX_COST_USD = 50


def own_job_params() -> dict[str, Param]:
    """Return the fields of a run of one of Terraform's own jobs."""
    known = [name for name in os.environ.get(OWN_JOBS_VARIABLE, "").split(",") if name]
    choice: dict[str, Any] = {"examples": known} if known else {}
    return {
        "job": Param(
            known[0] if known else None,
            type=["string", "null"],
            pattern=NAME_PATTERN,
            description="Name of an own job: a key of own_jobs in Terraform.",
            **choice,
        ),
        "sizes": _sizes("Sizes of its axis, one number per line; none means Terraform's."),
        "targets": dag_parts.targets_param("none means all that the job is defined for"),
        **_run_params("target"),
    }


def comparison_params() -> dict[str, Param]:
    """Return the fields of a comparison of jobs that run already."""
    return {
        "name": Param(
            "comparison",
            type="string",
            pattern=NAME_PATTERN,
            description="What its results are kept under; the same name goes on with its history.",
        ),
        "sides": Param(
            [],
            type="array",
            items={"type": "object"},
            maxItems=MOST_SIDES,
            description='Objects such as {"name": "old", "job_queue": "images", "job_definition": '
            '"resize:7"}; also parameters, environment, command, vcpus, memory_mib, gpus, '
            "timeout_seconds, check, output, output_sha256 and shell.",
        ),
        "parameter": Param(
            None,
            type=["string", "null"],
            pattern=PARAMETER_PATTERN,
            description="Placeholder of the sides' commands that takes the sizes, such as size for "
            "Ref::size. Empty for none.",
        ),
        "sizes": _sizes("Sizes of the parameter, one number per line."),
        **_run_params("side"),
    }


def _run_params(place: str) -> dict[str, Param]:
    about_repeats = (
        f"Jobs of each {place} and size. With 6 or more they have intervals. Each queue runs one "
        "job more, first of all, to start its instance."
    )
    return {
        **dag_parts.repeats_param(REPEATS, 1, about_repeats),
        "deadline_seconds": Param(
            None,
            type=["number", "null"],
            exclusiveMinimum=0,
            maximum=MOST_SECONDS,
            description="The report says what is cheapest within it, waiting left out. Empty for "
            "none.",
        ),
        **dag_parts.cost_params(MAX_COST_USD),
        "reruns": dag_parts.reruns_param(),
    }


def _sizes(description: str) -> Param:
    return Param(
        [],
        type=["array", "null"],
        items={"type": "number", "exclusiveMinimum": 0, "maximum": MOST_SIZE},
        maxItems=MOST_SIZES,
        description=description,
    )
