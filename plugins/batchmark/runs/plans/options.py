"""Converts forms to run options, and options to job overrides."""

from __future__ import annotations

import copy
import secrets
import shlex
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import ValidationError

from batchmark.core.errors import PlanError
from batchmark.core.run import PlannedJob
from batchmark_job.result.options import Options, arguments, problem, schemas
from batchmark_job.result.scaling_options import NODES_TOKEN

OPTIONS_VARIABLE = "BATCHMARK_OPTIONS"  # further options of `run`, split as a shell does
SMALLEST_ARRAY = 2  # by SubmitJob
ALL_NODES = "0:"  # as in the job definition, or SubmitJob refuses another number of nodes

_Options = TypeVar("_Options", bound=Options)


def parse_options(model: type[_Options], params: Mapping[str, Any], where: str = "") -> _Options:
    """Parse a form's parameters as options; missing ones get their defaults.

    `where` is put before the option names in error messages.

    Raises:
        PlanError: an option is invalid.
    """
    given = {
        name: _of_list(params[name], schema["items"]) if "items" in schema else params[name]
        for name, schema in schemas(model).items()
        if name in params
    }
    try:
        options = model(**given)
    except ValidationError as error:
        raise PlanError(problem(model, error, lambda name: f"{where}{name}")) from error
    if contradiction := options.contradiction(str):
        raise PlanError(f"{where}{contradiction}")
    return options


def _of_list(value: Any, items: Mapping[str, Any]) -> Any:
    """Normalise a form's list: None becomes empty, and numbers given as text are parsed."""
    if value is None:
        return ()
    if items.get("type") not in {"integer", "number"} or not isinstance(value, list | tuple):
        return value
    return [_number(each) for each in value if not isinstance(each, str) or each.strip()]


def _number(given: Any) -> Any:
    """Convert text to a number if possible."""
    for kind in (int, float) if isinstance(given, str) else ():
        with suppress(ValueError):
            return kind(given)
    return given


def overrides(job: PlannedJob) -> dict[str, Any]:
    """Return a job's SubmitJob overrides, based on its options; empty if it has none."""
    options = job.sharing or job.scaling
    if options is None:
        return {}
    told = [{"name": OPTIONS_VARIABLE, "value": shlex.join(arguments(options))}]
    container = {"environment": told}
    if job.scaling:
        of_nodes = [{"targetNodes": ALL_NODES, "containerOverrides": container}]
        return {
            "node_overrides": {"numNodes": job.nodes, "nodePropertyOverrides": of_nodes},
        }
    found: dict[str, Any] = {"container_overrides": container}
    apart = job.sharing.separate_replicas if job.sharing and job.sharing.form == "jobs" else None
    if apart and apart >= SMALLEST_ARRAY:
        found["array_properties"] = {"size": apart}
    return found


def with_token(node_overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return `nodeOverrides` with a new secret that a job's nodes use to authenticate each other.

    The secret isn't part of the plan, which many users can read; it is created at submission and
    never stored.
    """
    token = {"name": NODES_TOKEN, "value": secrets.token_urlsafe(32)}
    found = copy.deepcopy(dict(node_overrides))
    for nodes in found["nodePropertyOverrides"]:
        nodes.setdefault("containerOverrides", {}).setdefault("environment", []).append(token)
    return found
