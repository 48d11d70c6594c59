"""What Terraform thinks of a stack before it changes anything."""

import json
from typing import Any

from python_terraform import IsFlagged

from laptop.terraform import Result, Terraform


def plan_exit_code(terraform: Terraform, **inputs: Any) -> int:
    """0 for a plan without changes, 2 for one with some."""
    return _plan(terraform, **inputs).returncode


def planned_changes(terraform: Terraform, **inputs: Any) -> dict[str, str]:
    """What an apply would do to each resource, by address: create, update, replace, delete."""
    return _changes(_plan(terraform, json=IsFlagged, **inputs))


def apply(terraform: Terraform, **inputs: Any) -> dict[str, str]:
    """Apply; what was planned then, like `planned_changes`."""
    return _changes(
        terraform.with_inputs("apply", json=IsFlagged, auto_approve=IsFlagged, **inputs)
    )


def destroy(terraform: Terraform, **inputs: Any) -> None:
    """Destroy without asking, with the inputs of the last apply."""
    terraform.with_inputs("destroy", auto_approve=IsFlagged, **inputs)


def destroy_unchanged(terraform: Terraform, **inputs: Any) -> None:
    """Destroy what a plan has just found to be as it was applied: it isn't looked at once more."""
    destroy(terraform, refresh=False, **inputs)


def _changes(result: Result) -> dict[str, str]:
    messages = map(json.loads, result.stdout.splitlines())
    changes = (message["change"] for message in messages if message["type"] == "planned_change")
    return {
        change["resource"]["addr"]: change["action"]
        for change in changes
        if change["action"] != "read"  # a data source, read again
    }


def _plan(terraform: Terraform, **inputs: Any) -> Result:
    return terraform.with_inputs("plan", allowed=(0, 2), detailed_exitcode=IsFlagged, **inputs)
