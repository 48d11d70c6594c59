"""The fields of each benchmark's form: of the options that it has, and of what all runs have."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param

from batchmark.core.own_jobs import ComparisonRun, OwnJobRun
from batchmark.core.suites import TASKS
from batchmark.orchestration import dag_parts
from batchmark_job.result.options import Options, schemas
from batchmark_job.result.scaling_options import ScalingRun
from batchmark_job.result.sharing_options import MOST_REPLICAS, SHARING_SECTION, SharingOptions

# Asking AWS here would hold up whoever parses DAGs.
OWN_JOBS_VARIABLE = "BATCHMARK_OWN_JOBS"
MAX_COST_USD = 50
KNOWN_TASKS = {"examples": list(TASKS)}
REQUIRED = {"enum", "minItems", "minLength", "must", "pattern"}
NOT_OF_THE_FORM = ("command", "default", "flag", "must", "says")


def option_params(model: type[Options], **more: Mapping[str, Any]) -> dict[str, Param]:
    """Return the fields of a model's options; scheduled runs take their defaults.

    `more` goes into the JSON Schema of the field of that name.
    """
    return {
        name: _param({**schema, **more.get(name, {})})
        for name, schema in schemas(model).items()
        if "description" in schema
    }


def _param(schema: Mapping[str, Any]) -> Param:
    field = {key: value for key, value in schema.items() if key not in NOT_OF_THE_FORM}
    default, kind = schema["default"], schema["type"]
    if kind == "object":  # sizes, which are typed as text
        default, kind = " ".join(f"{key}={size}" for key, size in default.items()), "string"
    # Without "null" the form marks the field as one that must be filled in.
    if kind in ("array", "string") and not REQUIRED & schema.keys():
        kind = [kind, "null"]
    if says := schema.get("says"):
        field["values_display"] = {choice: f"{choice}: {text}" for choice, text in says.items()}
    if choices := schema.get("items", {}).get("enum"):
        field["examples"] = choices
    return Param(default, **field | {"type": kind})


def sharing_params() -> dict[str, Param]:
    """Return the fields of a run of tasks that share a device."""
    return {
        **option_params(SharingOptions, task=KNOWN_TASKS),
        **dag_parts.run_params(
            repeats=1,
            fewest_repeats=1,
            about_repeats="How often each target measures everything.",
            max_cost_usd=MAX_COST_USD,
        ),
        "reruns": dag_parts.reruns_param(),
    }


def pods_params() -> dict[str, Param]:
    """Return the fields of a run of pods: what they run, and how many there are."""
    shared = {
        "default": [20],
        "description": "Pods that share the node's GPUs by time-slicing, one number per line: a "
        "job for each.",
    }
    fields = option_params(SharingOptions, task=KNOWN_TASKS, replicas=shared)
    return {
        "task": fields["task"],
        "axes": fields["axes"],
        "waiting_replicas": Param(
            5,
            type="integer",
            minimum=0,
            maximum=MOST_REPLICAS,
            section=SHARING_SECTION,
            description="Pods of a first job that begins without sharing: each takes a GPU for "
            "itself, and those that find none wait until sharing is switched on. 0 for none.",
        ),
        "replicas": fields["replicas"],
        **dag_parts.cost_params(MAX_COST_USD),
    }


def scaling_params() -> dict[str, Param]:
    """Return the fields of a run of nodes that train together."""
    return {
        **option_params(ScalingRun),
        **dag_parts.repeats_param(1, 1, "How often each number of nodes is measured."),
        **of_any_run(),
    }


def own_job_params() -> dict[str, Param]:
    """Return the fields of a run of one of Terraform's own jobs."""
    known = [name for name in os.environ.get(OWN_JOBS_VARIABLE, "").split(",") if name]
    choice = {"default": known[0], "examples": known} if known else {}
    targets = dag_parts.targets_param("none means all that the job is defined for")
    return option_params(OwnJobRun, job=choice) | {"targets": targets} | of_any_run()


def comparison_params() -> dict[str, Param]:
    """Return the fields of a comparison of jobs that run already."""
    return option_params(ComparisonRun) | of_any_run()


def of_any_run() -> dict[str, Param]:
    return {**dag_parts.cost_params(MAX_COST_USD), "reruns": dag_parts.reruns_param()}
