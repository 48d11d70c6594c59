"""Lists all alerts, with what is known about each and the states a person can set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from batchmark.changes.alerts.records import BY_HAND, LISTED, MAY_FOLLOW, Alert, State, precision
from batchmark.core import formatting
from batchmark.report.changes import words as change_words


class AlertView(NamedTuple):
    alert: Alert
    title: str
    since: str  # the first run with the change, in words
    facts: list[tuple[str, list[str]]]
    states: list[State]  # that a person may set next

    @property
    def comparisons(self) -> Iterator[tuple[str, str]]:
        """Each target, with a query that compares its runs just after and before the change."""
        for point in {point.series.target: point for point in self.alert.change.points}.values():
            name = point.series.target
            first = {"a": point.first_run_id, "a_target": name}
            yield name, urlencode({**first, "b": point.last_run_id, "b_target": name})


def alert_views(alerts: Sequence[Alert]) -> tuple[str, str, list[AlertView]]:
    """Return a summary, how often alerts were right, and alerts by urgency, then newest first."""
    ordered = sorted(alerts, key=lambda one: one.transitions[0].at, reverse=True)
    ordered.sort(key=lambda one: LISTED.index(one.state) if one.state in LISTED else len(LISTED))
    views = [
        AlertView(
            alert,
            change_words.title(alert.change),
            change_words.first_run(alert.change),
            list(_facts(alert)),
            [state for state in MAY_FOLLOW[alert.state] if state in BY_HAND],
        )
        for alert in ordered
    ]
    right = change_words.precision(precision(alerts)) if alerts else ""
    return summary(alerts), right, views


def _facts(alert: Alert) -> Iterator[tuple[str, list[str]]]:
    until = alert.figures_run_id or alert.transitions[0].run_id
    for name, lines in change_words.facts(alert.change):
        of_run = f", as of run {until}" if name == change_words.FIGURES else ""
        yield name, [line + of_run for line in lines]
    if alert.figures_run_id is not None:
        usd, earlier = alert.change.usd_per_month, alert.earlier_usd_per_month
        fell = ""
        if usd is not None and earlier is not None and usd < earlier:
            fell = (
                "; with them averaged in, the estimate for a month is below the "
                f"{formatting.usd(earlier)} that was told first"
            )
        told = (
            f"run {alert.figures_run_id}, which added rows that had moved too{fell}; "
            "the alert's first message and report have the figures of their day"
        )
        yield "updated by", [told]
    if alert.cures is not None:
        yield "recovered with", change_words.differences(alert.cures)


def summary(alerts: Sequence[Alert]) -> str:
    if not alerts:
        return "No alerts yet: nothing has become slower, dearer or noisier."
    counts = Counter(alert.state for alert in alerts)
    found = ", ".join(f"{counts[state]} {state}" for state in counts)
    return f"{formatting.count(len(alerts), 'alert')}: {found}."
