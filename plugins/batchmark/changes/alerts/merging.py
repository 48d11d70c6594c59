"""What a run's changes add to the alerts that are there: new ones, and what came back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from batchmark.alerts.records import (
    MOST_SERIES,
    WATCHED,
    Alert,
    Improvement,
    Joined,
    Recovery,
    change_id,
)
from batchmark.attribution import are_near

if TYPE_CHECKING:
    from datetime import datetime

    from batchmark.alerts.settings import AlertSettings
    from batchmark.change_records import Change, ChangePoint


@dataclass(frozen=True)
class Merged:
    """What is new with a run. An alert that is opened may recover in the same run.

    What joined an alert comes before what recovers: it counts there.
    """

    opened: tuple[Alert, ...]
    recoveries: tuple[Recovery, ...]
    improvements: tuple[Improvement, ...]
    joined: tuple[Joined, ...]


def merge(
    alerts: Sequence[Alert],
    improvements: Sequence[Improvement],
    changes: Iterable[Change],
    settings: AlertSettings,
    *,
    run_id: str,
    at: datetime,
) -> Merged:
    """Hold a run's changes against all alerts and improvements that were there before it."""
    opened: list[Alert] = []
    recoveries: list[Recovery] = []
    noted: list[Improvement] = []
    joined: list[Joined] = []
    worse = Told(alert.change for alert in alerts)
    better = Told(one.change for one in improvements)
    watched = {alert.id: alert for alert in alerts if alert.state in WATCHED}
    for change in sorted(changes, key=_begins):
        told = settings.worth_telling(change)
        if change.points[0].worse:
            if told and not worse.knows(change):
                alert = Alert.opened(told, run_id=run_id, at=at)
                opened.append(alert)
                watched[alert.id] = alert
            elif told and (new := worse.unknown(told)):
                before = (watched[alert.id] for alert in alerts if alert.id in watched)
                for alert in before:
                    if Told([alert.change]).knows(change):
                        joined.append(Joined(alert_id=alert.id, points=new, change=change))
                        watched[alert.id] = alert.join(joined[-1])
                        break
        else:
            found = [
                one
                for alert in watched.values()
                if (one := _recovery(alert, change, run_id=run_id, at=at))
            ]
            recoveries += found
            for one in found:
                watched[one.alert_id] = watched[one.alert_id].recover(one)
                if one.closes:
                    del watched[one.alert_id]
            is_good_news = told and settings.improvements and not better.knows(change)
            kept = change if found else told
            if kept and (found or is_good_news):
                noted.append(
                    Improvement(
                        id=change_id(kept),
                        change=kept,
                        run_id=run_id,
                        at=at,
                        brought_back=tuple(one.alert_id for one in found),
                    )
                )
    return Merged(tuple(opened), tuple(recoveries), tuple(noted), tuple(joined))


class Told:
    """Changes that were told, by what moved."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._points: dict[Hashable, list[ChangePoint]] = {}
        for change in changes:
            for point in change.points:
                self._points.setdefault(_moved(point), []).append(point)

    def knows(self, change: Change) -> bool:
        """Whether one of these is the same change, though it may begin at a run nearby."""
        return len(self.unknown(change)) < len(change.points)

    def unknown(self, change: Change) -> tuple[ChangePoint, ...]:
        """The change's points that none of these has."""
        return tuple(
            point
            for point in change.points
            if not any(are_near(point, told) for told in self._points.get(_moved(point), ()))
        )


def _moved(point: ChangePoint) -> Hashable:
    return point.metric, point.worse, point.series


def _recovery(alert: Alert, change: Change, *, run_id: str, at: datetime) -> Recovery | None:
    """What of an alert this improvement brings back; None for nothing that is new."""
    points = tuple(_brought_back(alert, change))
    if not points:
        return None
    back = {*alert.back, *(point.series for point in points)}
    return Recovery(
        alert_id=alert.id,
        run_id=run_id,
        at=at,
        points=points,
        closes=len(back) >= MOST_SERIES * len(alert.series),
    )


def _brought_back(alert: Alert, change: Change) -> Iterator[ChangePoint]:
    worse = {(point.series, point.metric): point for point in alert.change.points}
    for point in change.points:
        before = worse.get((point.series, point.metric))
        if before and point.series not in alert.back and _undoes(point, before):
            yield point


def _undoes(better: ChangePoint, worse: ChangePoint) -> bool:
    """Whether a later level has made up for at least half of what was lost, or for more."""
    halfway = (worse.before.median + worse.after.median) / 2
    level = better.after.median
    return better.first_recorded_at > worse.first_recorded_at and (
        level >= halfway if worse.after.median < worse.before.median else level <= halfway
    )


def _begins(change: Change) -> tuple[datetime, bool]:
    """In the order of time; of what begins at once, the worse first."""
    return change.points[0].first_recorded_at, not change.points[0].worse
