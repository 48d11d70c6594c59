"""What Terraform thinks of a stack before it changes anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from python_terraform import IsFlagged

from laptop.terraform import Result, Terraform


def plan_exit_code(terraform: Terraform, **inputs: Any) -> int:
    """0 for a plan without changes, 2 for one with some."""
    return _plan(terraform, **inputs).code


def planned_changes(terraform: Terraform, **inputs: Any) -> dict[str, str]:
    """What an apply would do to each resource, by address: create, update, replace, delete."""
    return _changes(_plan(terraform, json=IsFlagged, **inputs))


def apply(terraform: Terraform, **inputs: Any) -> dict[str, str]:
    """Apply; what was planned then, like `planned_changes`."""
    return _changes(
        terraform.run(
            "apply",
            json=IsFlagged,
            state=terraform.state,
            input=False,
            auto_approve=IsFlagged,
            **_given(**inputs),
        )
    )


def destroy_unchanged(terraform: Terraform, **inputs: Any) -> None:
    """Destroy what a plan has just found to be as it was applied: it isn't looked at once more."""
    terraform.run(
        "destroy",
        state=terraform.state,
        input=False,
        refresh=False,
        auto_approve=IsFlagged,
        **_given(**inputs),
    )


def _changes(result: Result) -> dict[str, str]:
    messages = map(json.loads, result.out.splitlines())
    changes = (message["change"] for message in messages if message["type"] == "planned_change")
    return {
        change["resource"]["addr"]: change["action"]
        for change in changes
        if change["action"] != "read"  # a data source, read again
    }


def _plan(
    terraform: Terraform,
    *,
    var_file: Path | None = None,
    variables: Mapping[str, Any] | None = None,
    **options: Any,
) -> Result:
    return terraform.run(
        "plan",
        allowed=(0, 2),
        state=terraform.state,
        input=False,
        detailed_exitcode=IsFlagged,
        **_given(var_file, variables),
        **options,
    )


def _given(
    var_file: Path | None = None, variables: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {"var_file": var_file and var_file.resolve(), "var": dict(variables or {})}
