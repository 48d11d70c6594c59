"""Applies Batch's retry rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AttemptEnd:
    """How an attempt ended; the exit code is None if it never started or the code is unknown."""

    exit_code: int | None
    reason: str | None
    status_reason: str


def matches(pattern: str, value: str | None) -> bool:
    """Return whether a value matches a pattern (exact, or a prefix and `*`); None matches `*`."""
    seen = value or ""
    return seen.startswith(pattern[:-1]) if pattern.endswith("*") else seen == pattern


def should_retry(strategy: dict[str, Any], attempt: int, end: AttemptEnd) -> bool:
    """Return whether to retry after the given attempt number; the first matching rule decides."""
    if attempt >= int(strategy.get("attempts") or 1):
        return False
    seen = {
        "onExitCode": None if end.exit_code is None else str(end.exit_code),
        "onReason": end.reason,
        "onStatusReason": end.status_reason,
    }
    for rule in strategy.get("evaluateOnExit") or []:
        conditions = {key: rule[key] for key in seen if rule.get(key) is not None}
        if all(matches(pattern, seen[key]) for key, pattern in conditions.items()):
            return bool(rule["action"].upper() == "RETRY")
    return True
