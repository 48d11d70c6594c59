"""Builders of changes, alerts and messages for the tests of alerts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from batchmark.aws.result_bucket import RunStore
from batchmark.changes.alerts.merging import Merged, merge
from batchmark.changes.alerts.outbox import Delivery, RunMessage
from batchmark.changes.alerts.records import Alert, Improvement
from batchmark.changes.alerts.settings import AlertSettings
from batchmark.changes.records import (
    BETTER,
    WORSE,
    Change,
    ChangePoint,
    Level,
    RunChanges,
    SeriesKey,
)
from tests.builders.changed_series import build_key, run_id

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
FIRST_RUN = datetime(2026, 6, 1, 3, tzinfo=UTC)


def series(**fields: Any) -> SeriesKey:
    return build_key(**{"parameters": '{"size":5000}'} | fields)


def some_series(count: int) -> list[SeriesKey]:
    return [series(parameters=f'{{"size":{size}}}') for size in range(1000, 1000 + count)]


def point(
    first: int = 20,
    before: float = 0.010,
    after: float = 0.012,
    *,
    of: SeriesKey | None = None,
    metric: str = "time",
    near: int = 2,
    **fields: Any,
) -> ChangePoint:
    """A series that moved with run number `first`; `near` runs on each side may be meant, too."""
    values: dict[str, Any] = {
        "series": of or series(),
        "metric": metric,
        "first_run_id": run_id(first),
        "first_recorded_at": FIRST_RUN + timedelta(weeks=first),
        "last_run_id": run_id(first - 1),
        "near_run_ids": tuple(run_id(n) for n in range(first - near, first + near + 1)),
        "before": Level(median=before, spread=0.008, runs=first - 1),
        "after": Level(median=after, spread=0.011, runs=3),
        "change": after / before - 1,
        "p_value": 0.0004,
    }
    return ChangePoint(**values | fields)


def change(*points: ChangePoint, **fields: Any) -> Change:
    points = points or (point(),)
    kinds = WORSE if points[0].worse else BETTER
    values: dict[str, Any] = {
        "kind": kinds[points[0].metric],
        "points": points,
        "environment": False,
        "causes": (),
        "usd_per_month": 12.4,
    }
    return Change(**values | fields)


def moved(first: int, before: float, after: float, of: list[SeriesKey]) -> Change:
    return change(*(point(first, before, after, of=one) for one in of), environment=True)


def opened(*changes: Change) -> list[Alert]:
    return [
        Alert.opened(one, run_id="run-early", at=NOW - timedelta(days=7))
        for one in changes or (change(),)
    ]


def in_state(alert: Alert, *states: str) -> Alert:
    """The alert after these states, one after the other."""
    for number, state in enumerate(states):
        alert = alert.become(state, at=NOW, by="ada", run_id=f"manual-{number}")
    return alert


def merged(
    changes: Sequence[Change],
    alerts: Sequence[Alert] = (),
    told: Sequence[Improvement] = (),
    **settings: Any,
) -> Merged:
    """What run 30 adds, with these settings, to alerts and to improvements that were told."""
    return merge(alerts, told, changes, AlertSettings(**settings), run_id=run_id(30), at=NOW)


def message(run: str = "run-30", channels: tuple[str, ...] = ("sns",), **fields: Any) -> RunMessage:
    values: dict[str, Any] = {
        "run_id": run,
        "created_at": NOW,
        "subject": "Batchmark lab: 1 slower",
        "text": "1 slower",
        "attributes": {"kind": ("slower",), "state": ("open",)},
        "opened": tuple(opened()),
        "recoveries": (),
        "improvements": (),
        "deliveries": tuple(Delivery(channel=channel) for channel in channels),
    }
    return RunMessage(**values | fields)


def store_changes(store: RunStore, *changes: Change) -> str:
    """A run's changes.json; its key."""
    return store.write(
        "changes.json", RunChanges(run_id=run_id(30), changes=changes).model_dump_json()
    )
