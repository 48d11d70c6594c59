"""How often alerts were right, by what became of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from batchmark.rates import Rate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from batchmark.alerts.records import Alert, State

# A level that came back had been there, unless somebody called the alert invalid.
RIGHT: tuple[State, ...] = ("acknowledged", "fixed", "recovered")


def precision(alerts: Iterable[Alert]) -> Rate | None:
    """Of the alerts that something is known of, those that were right; None of none."""
    states = Counter(alert.state for alert in alerts)
    right = sum(states[state] for state in RIGHT)
    known = right + states["invalid"]
    return Rate.of(right, known) if known else None
