"""Builders of changes, alerts and messages for the tests of alerts."""

from datetime import UTC, datetime, timedelta

from batchmark.changes.alerts.merging import merge
from batchmark.changes.alerts.outbox import Delivery, RunMessage
from batchmark.changes.alerts.records import Alert
from batchmark.changes.alerts.settings import AlertSettings
from batchmark.changes.records import BETTER, WORSE, Change, Level, RunChanges
from tests.builders.changed_series import build_key, build_point, run_id

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
FIRST_RUN = datetime(2026, 6, 1, 3, tzinfo=UTC)


def series(**fields):
    return build_key(**{"parameters": '{"size":5000}'} | fields)


def some_series(count):
    return [series(parameters=f'{{"size":{size}}}') for size in range(1000, 1000 + count)]


def point(first=20, before=0.010, after=0.012, *, of=None, metric="time", near=2, **fields):
    """A series that moved with run number `first`; `near` runs on each side may be meant, too."""
    moved = {
        "first_recorded_at": FIRST_RUN + timedelta(weeks=first),
        "near_run_ids": tuple(run_id(n) for n in range(first - near, first + near + 1)),
        "before": Level(median=before, spread=0.008, runs=first - 1),
        "after": Level(median=after, spread=0.011, runs=3),
        "p_value": 0.0004,
    }
    change = after / before - 1
    return build_point(of or series(), change, run=first, metric=metric, **moved | fields)


def change(*points, **fields):
    points = points or (point(),)
    kinds = WORSE if points[0].worse else BETTER
    values = {
        "kind": kinds[points[0].metric],
        "points": points,
        "environment": False,
        "causes": (),
        "usd_per_month": 12.4,
    }
    return Change(**values | fields)


def moved(first, before, after, of):
    return change(*(point(first, before, after, of=one) for one in of), environment=True)


def opened(*changes):
    return [
        Alert.opened(one, run_id="run-early", at=NOW - timedelta(days=7))
        for one in changes or (change(),)
    ]


def in_state(alert, *states):
    """The alert after these states, one after the other."""
    for number, state in enumerate(states):
        alert = alert.become(state, at=NOW, by="ada", run_id=f"manual-{number}")
    return alert


def merged(changes, alerts=(), told=(), **settings):
    """What run 30 adds, with these settings, to alerts and to improvements that were told."""
    return merge(alerts, told, changes, AlertSettings(**settings), run_id=run_id(30), at=NOW)


def message(run="run-30", channels=("sns",), **fields):
    values = {
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


def store_changes(store, *changes):
    """A run's changes.json; its key."""
    return store.write(
        "changes.json", RunChanges(run_id=run_id(30), changes=changes).model_dump_json()
    )
