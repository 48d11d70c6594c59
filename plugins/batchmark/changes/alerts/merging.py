"""Compares a run's changes with existing alerts to find new changes and recovered series."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from batchmark.changes.alerts.records import (
    MOST_SERIES,
    WATCHED,
    Alert,
    Improvement,
    Joined,
    Recovery,
    change_id,
)
from batchmark.changes.alerts.settings import AlertSettings
from batchmark.changes.attribution import are_near
from batchmark.changes.records import Change, ChangePoint


@dataclass
class Merged:
    """A run's additions to the alerts. An alert can open and recover in the same run.

    New series join an alert before any series recover, so they count towards its recovery.
    """

    opened: tuple[Alert, ...] = ()
    recoveries: tuple[Recovery, ...] = ()
    improvements: tuple[Improvement, ...] = ()
    joined: tuple[Joined, ...] = ()


def merge(
    alerts: Sequence[Alert],
    improvements: Sequence[Improvement],
    changes: Iterable[Change],
    settings: AlertSettings,
    *,
    run_id: str,
    at: datetime,
) -> Merged:
    """Compare a run's changes with all alerts and improvements from before the run."""
    merger = _Merger(alerts, improvements, settings, run_id, at)
    for change in sorted(changes, key=_begins):
        if change.points[0].worse:
            merger.add_regression(change)
        else:
            merger.add_improvement(change)
    return merger.merged


class _Merger:
    """Merges a run's changes in chronological order."""

    def __init__(
        self,
        alerts: Sequence[Alert],
        improvements: Sequence[Improvement],
        settings: AlertSettings,
        run_id: str,
        at: datetime,
    ) -> None:
        self.merged = Merged()
        self._settings, self._run_id, self._at = settings, run_id, at
        self._known_worse = KnownChanges(alert.change for alert in alerts)
        self._known_better = KnownChanges(one.change for one in improvements)
        self._earlier = [alert.id for alert in alerts]
        # Those whose level may still come back, with what the changes did so far.
        self.watched = {alert.id: alert for alert in alerts if alert.state in WATCHED}

    def add_regression(self, change: Change) -> None:
        """Open an alert or add series to an existing one, if the change is worth announcing."""
        relevant = self._settings.worth_telling(change)
        if relevant is None:
            return
        if not self._known_worse.has(change):
            alert = Alert.opened(relevant, run_id=self._run_id, at=self._at)
            self.merged.opened += (alert,)
            self.watched[alert.id] = alert
        elif new := self._known_worse.missing(relevant):
            self._join(new, relevant)

    def _join(self, points: tuple[ChangePoint, ...], change: Change) -> None:
        for alert in (self.watched[one] for one in self._earlier if one in self.watched):
            if KnownChanges([alert.change]).has(change):
                joined = Joined(
                    alert_id=alert.id, run_id=self._run_id, points=points, change=change
                )
                self.merged.joined += (joined,)
                self.watched[alert.id] = alert.join(joined)
                return

    def add_improvement(self, change: Change) -> None:
        """Record an improvement if it brings recoveries or, failing that, is worth announcing."""
        found = tuple(
            recovery
            for alert in self.watched.values()
            if (recovery := _recovery(alert, change, run_id=self._run_id, at=self._at))
        )
        self.merged.recoveries += found
        for recovery in found:
            alert = self.watched[recovery.alert_id].recover(recovery)
            self.watched[alert.id] = alert
            if recovery.closes:
                del self.watched[alert.id]
        if found:
            self._note(change, found)
        elif (
            self._settings.improvements
            and not self._known_better.has(change)
            and (relevant := self._settings.worth_telling(change))
        ):
            self._note(relevant, ())

    def _note(self, change: Change, recoveries: Sequence[Recovery]) -> None:
        improvement = Improvement(
            id=change_id(change),
            change=change,
            run_id=self._run_id,
            at=self._at,
            brought_back=tuple(recovery.alert_id for recovery in recoveries),
        )
        self.merged.improvements += (improvement,)


class KnownChanges:
    """The changes already recorded, by series, metric and direction."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._points: dict[Hashable, list[ChangePoint]] = {}
        for change in changes:
            for point in change.points:
                self._points.setdefault(_moved(point), []).append(point)

    def has(self, change: Change) -> bool:
        """Check whether any of the change's points is already known at the same or a nearby run."""
        return len(self.missing(change)) < len(change.points)

    def missing(self, change: Change) -> tuple[ChangePoint, ...]:
        """Return the change's points that aren't part of any known change."""
        return tuple(
            point
            for point in change.points
            if not any(are_near(point, known) for known in self._points.get(_moved(point), ()))
        )


def _moved(point: ChangePoint) -> Hashable:
    return point.metric, point.worse, point.series


def _recovery(alert: Alert, change: Change, *, run_id: str, at: datetime) -> Recovery | None:
    """Return the recovery of an alert's series through an improvement; None if none recovers."""
    worse = {(point.series, point.metric): point for point in alert.change.points}
    points = tuple(
        point
        for point in change.points
        if (before := worse.get((point.series, point.metric)))
        and point.series not in alert.back
        and _undoes(point, before)
    )
    if not points:
        return None
    back = {*alert.back, *(point.series for point in points)}
    return Recovery(
        alert_id=alert.id,
        run_id=run_id,
        at=at,
        points=points,
        causes=change.causes,
        closes=len(back) >= MOST_SERIES * len(alert.series),
    )


def _undoes(better: ChangePoint, worse: ChangePoint) -> bool:
    """Check whether a later change undoes at least half of an earlier regression."""
    halfway = (worse.before.median + worse.after.median) / 2
    level = better.after.median
    return better.first_recorded_at > worse.first_recorded_at and (
        level >= halfway if worse.after.median < worse.before.median else level <= halfway
    )


def _begins(change: Change) -> tuple[datetime, bool]:
    """Return a sort key: the start time, then regressions before improvements."""
    return change.points[0].first_recorded_at, not change.points[0].worse
