"""Builds the benchmark DAGs' trigger forms from option models and common fields."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param

from batchmark.core.own_jobs import ComparisonRun, OwnJobRun
from batchmark.core.suites import DTYPES, MAX_REPEATS, OWN_DTYPES, SCALING, SUITES, TASKS
from batchmark_job.result.options import Options, schemas
from batchmark_job.result.scaling_options import ScalingRun
from batchmark_job.result.sharing_options import MOST_REPLICAS, SHARING_SECTION, SharingOptions
from batchmark_job.result.version import GivenVersion

# Asking AWS here would hold up whoever parses DAGs.
OWN_JOBS_VARIABLE = "BATCHMARK_OWN_JOBS"
TARGETS_VARIABLE = "BATCHMARK_TARGETS"
EVERY_TARGET = "by default, all targets created by Terraform"
# Those whose jobs share an instance run only if they are named.
EVERY_TARGET_ALONE = f"{EVERY_TARGET}, except those whose jobs share an instance"
DEFAULT_SUITE_VARIABLE = "BATCHMARK_DEFAULT_SUITE"  # the laptop's is the quick one
MAX_COST_USD = 50
KNOWN_TASKS = {"examples": list(TASKS)}
REQUIRED = {"enum", "minItems", "minLength", "must", "pattern"}
NUMBERS = ("integer", "number")
NOT_OF_THE_FORM = ("command", "default", "flag", "must", "says")


def option_params(model: type[Options], **more: Mapping[str, Any]) -> dict[str, Param]:
    """Return an option model's form fields, whose defaults apply to scheduled runs.

    Each value in `more` is merged into the JSON Schema of the field with the same name.
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
    items = schema.get("items", {})
    if choices := items.get("enum"):
        field["examples"] = choices
    elif items.get("type") in NUMBERS:
        # With it the form has a JSON editor, which drops what is no JSON. The plan checks each.
        field["items"] = {key: value for key, value in items.items() if key != "type"}
    return Param(default, **field | {"type": kind})


def sharing_params() -> dict[str, Param]:
    """Return the form fields for running tasks that share a device."""
    return {
        **option_params(SharingOptions, task=KNOWN_TASKS),
        "targets": targets_param(),
        "repeats": repeats_param("Number of times each target measures everything."),
        **of_any_run(),
    }


def pods_params() -> dict[str, Param]:
    """Return the form fields for a run of pods: what they run, and how many there are."""
    shared = {
        "default": [20],
        "description": "Numbers of pods that share the node's GPUs by time-slicing, one per line. "
        "Each number is measured in a separate job.",
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
            description="Number of pods in an extra first job that starts without sharing: some "
            "get a whole GPU each, and the others wait until sharing is enabled. Set it to 0 to "
            "skip this job.",
        ),
        "replicas": fields["replicas"],
        **common_params(),
    }


def scaling_params() -> dict[str, Param]:
    """Return the form fields for a multi-node training run."""
    return {
        **option_params(ScalingRun),
        "repeats": repeats_param("Number of times each node count is measured."),
        **of_any_run(),
    }


def own_job_params() -> dict[str, Param]:
    """Return the form fields to run a user's own job; known jobs and sizes are choices."""
    known = _own_jobs()
    choice = {"default": next(iter(known)), "examples": [*known]} if known else {}
    named: dict[str, list[str]] = {}
    for name, of_job in known.items():
        for size in of_job:
            named.setdefault(size, []).append(name)
    sizes = {
        "examples": sorted(named, key=float),
        "values_display": {size: f"{size} ({', '.join(of)})" for size, of in named.items()},
        "description": "Sizes to run; by default all that are set in Terraform.",
    }
    fields = option_params(OwnJobRun, job=choice, sizes=sizes if named else {})
    targets = targets_param("by default all that the job is defined for")
    return fields | {"targets": targets} | of_any_run()


def _own_jobs() -> dict[str, list[str]]:
    """Return the sizes of users' own jobs, by job name, as given in OWN_JOBS_VARIABLE.

    The variable holds names or Terraform's `own_jobs` output as JSON; an invalid value is ignored.
    """
    told = os.environ.get(OWN_JOBS_VARIABLE, "")
    if not told.startswith("{"):
        return {name: [] for name in _names(told)}
    try:
        axes = {name: job.get("axis") or {} for name, job in json.loads(told).items()}
        sizes = {name: map(float, axis.get("sizes", ())) for name, axis in axes.items()}
        return {name: [f"{size:.15g}" for size in of_job] for name, of_job in sizes.items()}
    except (ValueError, TypeError, AttributeError):  # then they are typed, as without it
        return {}


def comparison_params() -> dict[str, Param]:
    return option_params(ComparisonRun) | of_any_run()


def of_any_run() -> dict[str, Param]:
    return {**common_params(), "reruns": reruns_param()}


def suite_params(
    repeats: int, fewest_repeats: int, about_repeats: str, max_cost_usd: float
) -> dict[str, Param]:
    """Return the form fields for suites, with these defaults for repeats and the cost cap."""
    offered = {name: says for name, says in SUITES.items() if name != SCALING}
    return {
        "suite": Param(
            os.environ.get(DEFAULT_SUITE_VARIABLE, "blog"),
            enum=list(offered),
            values_display={name: f"{name}: {says}" for name, says in offered.items()},
            description="What to measure.",
        ),
        "dtype": Param(
            OWN_DTYPES,
            enum=[OWN_DTYPES, *DTYPES],
            values_display={OWN_DTYPES: "suite: the suite's own choice for each row"},
            description="Number format of every row.",
        ),
        "targets": targets_param(EVERY_TARGET_ALONE),
        "repeats": repeats_param(about_repeats, repeats, fewest_repeats),
        **common_params(max_cost_usd),
    }


def repeats_param(about: str, default: int = 1, fewest: int = 1) -> Param:
    return Param(default, type="integer", minimum=fewest, maximum=MAX_REPEATS, description=about)


def common_params(max_cost_usd: float = MAX_COST_USD) -> dict[str, Param]:
    """Return the form fields shared by all runs that cost money."""
    return {
        "max_cost_usd": Param(
            max_cost_usd,
            type=["number", "null"],
            exclusiveMinimum=0,
            description="Submit nothing if the run could cost more than this. Its worst case is "
            "jobs x submissions (2 if On-Demand can follow Spot) x attempts x timeout x "
            "On-Demand price. A multi-node job counts once per node, including idle time and "
            "time spent waiting for other nodes. Leave empty for no cap.",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            description="Submit nothing: the page behind Report of plan_jobs shows the plan and "
            "the most that it can cost.",
        ),
        **option_params(GivenVersion),
    }


def targets_param(every: str = EVERY_TARGET) -> Param:
    """Return the form field for targets: a list of choices if they are known, otherwise free text.

    `every` describes the targets used by default.
    """
    # Without "null" the form marks the field as one that must be filled in.
    schema: dict[str, Any] = {"type": ["array", "null"], "items": {"type": "string"}}
    known = _names(os.environ.get(TARGETS_VARIABLE, ""))
    if known:
        schema["examples"] = known  # which Airflow lets people choose from
    how = "" if known else ", one per line"
    return Param([], description=f"Targets{how}; {every}.", **schema)


def _names(listed: str) -> list[str]:
    return [name for name in listed.split(",") if name]


def reruns_param() -> Param:
    """Return the form field that allows fresh jobs to verify apparent slow-downs."""
    return Param(
        True,
        type="boolean",
        description="Verify apparent slow-downs with one to three fresh jobs before raising an "
        "alert. Their cost counts towards max_cost_usd.",
    )
