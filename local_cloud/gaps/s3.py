"""Evaluates conditions in S3 bucket policies.

Only conditions on TLS (`Bool`, `NumericLessThan`) are evaluated. Every request counts as encrypted,
so policies that require TLS don't have to be weakened. A statement with any other condition does
not apply.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.models import FakeBucket

# Nobody else can read a request over the loopback interface, so it counts as encrypted.
REQUEST_CONTEXT = {"aws:securetransport": "true", "s3:tlsversion": "1.3"}

OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "Bool": lambda seen, wanted: seen == wanted.lower(),
    "NumericLessThan": lambda seen, wanted: float(seen) < float(wanted),
}


def as_list(value: Any) -> list[Any]:
    """Return a policy's field as a list, even if it is a single value."""
    return value if isinstance(value, list) else [value]


def holds(condition: dict[str, dict[str, Any]]) -> bool:
    """Return whether all of a statement's conditions hold; False for an unknown key or operator."""
    for operator_name, wanted_by_key in condition.items():
        operator = OPERATORS.get(operator_name.removesuffix("IfExists"))
        for key, wanted in wanted_by_key.items():
            seen = REQUEST_CONTEXT.get(key.lower())
            if operator is None or seen is None:
                return False
            if not any(operator(seen, str(value)) for value in as_list(wanted)):
                return False
    return True


def applying(statements: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the statements whose conditions hold, with the conditions removed."""
    return [
        {key: value for key, value in statement.items() if key != "Condition"}
        for statement in statements
        if holds(statement.get("Condition") or {})
    ]


def fill() -> None:
    """Evaluate bucket policies' conditions; moto denies calls that conditional statements cover."""

    def get_permission(self: FakeBucket, action: str, resource: str) -> PermissionResult:
        if self.policy is None:
            return PermissionResult.NEUTRAL
        policy = json.loads(self.policy)
        statements = applying(as_list(policy["Statement"]))
        return IAMPolicy(json.dumps({**policy, "Statement": statements})).is_action_permitted(
            action, resource
        )

    FakeBucket.get_permission = get_permission  # type: ignore[method-assign]
