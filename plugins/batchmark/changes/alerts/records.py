"""Stored alerts and improvements, and the allowed transitions between an alert's states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from math import log1p
from typing import Literal, Self, get_args

from pydantic import AwareDatetime, Field

from batchmark.changes.metric import Metric
from batchmark.changes.records import Cause, Change, ChangePoint, SeriesKey
from batchmark.changes.shares import Rate
from batchmark.core.errors import AlertError
from batchmark.core.record import Record
from batchmark_job.result.values import Shown

State = Literal["open", "acknowledged", "invalid", "fixed", "recovered"]
STATES: tuple[State, ...] = get_args(State)
# That a level came back is no verdict, so a recovered alert may still be called invalid. It is not
# opened again: a series that moves once more has a new alert.
MAY_FOLLOW: Mapping[State, tuple[State, ...]] = {
    "open": ("acknowledged", "invalid", "fixed", "recovered"),
    "acknowledged": ("open", "invalid", "fixed", "recovered"),
    "invalid": ("open", "acknowledged"),
    "fixed": ("open", "invalid", "recovered"),
    "recovered": ("invalid",),
}
# Which people may set: only a run sees that a level came back.
BY_HAND: tuple[State, ...] = tuple(state for state in STATES if state != "recovered")
# Whose levels may still come back.
WATCHED: tuple[State, ...] = tuple(
    state for state, following in MAY_FOLLOW.items() if "recovered" in following
)
# Which reports list, those that nobody has judged yet first.
LISTED: tuple[State, ...] = ("open", "acknowledged")
# A level that came back was a real one, unless somebody called the alert invalid.
RIGHT: tuple[State, ...] = ("acknowledged", "fixed", "recovered")
THE_RUN = "the run"
# Share of its series that has to come back before an alert is recovered; judgment.
MOST_SERIES = 0.8
DIGEST_CHARACTERS = 10
FIGURES = ("before", "after", "change", "p_value", "drift")  # of a change point


class Transition(Record):
    state: State
    at: AwareDatetime
    by: Shown = Field(description="a user's name, or 'the run'")
    note: Shown = ""
    run_id: Shown = Field(description="ID of the DAG run that made the transition")


class Recovery(Record):
    """A run's finding that some of an alert's series have returned to their old level."""

    alert_id: str
    run_id: str
    at: AwareDatetime
    points: tuple[ChangePoint, ...] = Field(
        min_length=1, description="the changes that returned these series to their old level"
    )
    causes: tuple[Cause, ...] = Field(
        default=(),
        description="what differs between the last run at the worse level and the first one "
        "back at the old level, as in `Change`",
    )
    closes: bool = Field(
        description="whether most of the alert's series are back at their old level, "
        "including those that recovered earlier"
    )


class Joined(Record):
    """Additional series that a later run found to have changed along with an alert's series."""

    alert_id: str
    run_id: str
    points: tuple[ChangePoint, ...] = Field(min_length=1)
    change: Change = Field(
        description="the change as the later run sees it, excluding series that are not announced"
    )


class Alert(Record):
    """An alert about a regression. Later runs that see it differently don't open another one."""

    id: Shown
    change: Change
    transitions: tuple[Transition, ...] = Field(min_length=1)
    back: tuple[SeriesKey, ...] = Field(
        default=(), description="series that are back at their old level"
    )
    cures: tuple[Cause, ...] | None = Field(
        default=None,
        description="what differs between the last run at the worse level and the first one "
        "back at the old level; null until a series is back",
    )
    figures_run_id: Shown | None = Field(
        default=None,
        description="ID of the later run that its figures come from, if series joined the "
        "alert in that run",
    )
    earlier_usd_per_month: float | None = Field(
        default=None, description="its cost before that run; null if unknown"
    )

    @classmethod
    def opened(cls, change: Change, *, run_id: str, at: AwareDatetime) -> Self:
        first = Transition(state="open", at=at, by=THE_RUN, run_id=run_id)
        return cls(id=change_id(change), change=change, transitions=(first,))

    @property
    def state(self) -> State:
        return self.transitions[-1].state

    @property
    def series(self) -> tuple[SeriesKey, ...]:
        return tuple(dict.fromkeys(point.series for point in self.change.points))

    def become(
        self, state: State, *, at: AwareDatetime, by: str, run_id: str, note: str = ""
    ) -> Alert:
        """Return the alert in a new state, or unchanged if this DAG run already made that change.

        Raises:
            AlertError: the alert can't change from its current state to this one.
        """
        if any((one.run_id, one.state) == (run_id, state) for one in self.transitions[1:]):
            return self
        allowed = MAY_FOLLOW[self.state]
        if state not in allowed:
            raise AlertError(
                f"alert {self.id} is {self.state} and can't become {state}; "
                f"it can become {' or '.join(allowed)}"
            )
        following = Transition(state=state, at=at, by=by, note=note, run_id=run_id)
        return self.model_copy(update={"transitions": (*self.transitions, following)})

    def join(self, joined: Joined) -> Alert:
        """Return the alert with the series that joined it, or unchanged if it already has them.

        Its other series get the later run's figures, as far as that run lists them.
        """
        points, new = _by_series(self.change.points), _by_series(joined.points)
        if new.keys() <= points.keys():
            return self
        seen = joined.change
        again = _by_series(seen.points)
        points = {
            key: known.model_copy(update={name: getattr(again[key], name) for name in FIGURES})
            if key in again
            else known
            for key, known in points.items()
        } | new
        update: dict[str, object] = {
            "points": tuple(
                sorted(points.values(), key=lambda one: abs(log1p(one.change)), reverse=True)
            ),
            "environment": self.change.environment or seen.environment,
            "fell_back": tuple(dict.fromkeys((*self.change.fell_back, *seen.fell_back))),
        }
        # A later run that does not see all targets does not know the whole cost.
        if set(seen.targets) >= set(self.change.targets):
            update |= seen.model_dump(include={"usd_per_hour", "usd_per_month", "usd_reason"})
        change = self.change.model_copy(update=update)
        return self.model_copy(
            update={
                "change": change,
                "figures_run_id": joined.run_id,
                "earlier_usd_per_month": self.change.usd_per_month,
            }
        )

    def recover(self, found: Recovery) -> Alert:
        """Return the alert with more series recovered; if enough are, its state is `recovered`.

        An alert that a person called invalid stays invalid.
        """
        back = tuple(dict.fromkeys((*self.back, *(point.series for point in found.points))))
        cures = tuple(dict.fromkeys((*(self.cures or ()), *found.causes)))
        alert = self.model_copy(update={"back": back, "cures": cures})
        if not found.closes or self.state not in WATCHED:
            return alert
        return alert.become("recovered", at=found.at, by=THE_RUN, run_id=found.run_id)


def _by_series(points: Iterable[ChangePoint]) -> dict[tuple[SeriesKey, Metric], ChangePoint]:
    return {(point.series, point.metric): point for point in points}


class Improvement(Record):
    """A change for the better, stored so that it is announced only once."""

    id: str
    change: Change
    run_id: str = Field(description="ID of the run that found it")
    at: AwareDatetime
    brought_back: tuple[str, ...] = Field(
        default=(), description="IDs of the alerts whose series it returned to their old level"
    )


def change_id(change: Change) -> str:
    """Derive an ID from a change's kind, series and first run; a retry gets the same ID."""
    series = sorted(point.series.model_dump_json() for point in change.points)
    text = "\n".join((change.kind, change.first_run_id, *series))
    return sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]


def precision(alerts: Iterable[Alert]) -> Rate | None:
    """Return the share of correct alerts among those with a verdict; None if there are none."""
    states = Counter(alert.state for alert in alerts)
    right = sum(states[state] for state in RIGHT)
    known = right + states["invalid"]
    return Rate.of(right, known) if known else None
