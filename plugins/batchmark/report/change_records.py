"""The report's data on changes: the changes found, re-run results, and current alerts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from pydantic import AwareDatetime, Field

from batchmark.changes.alerts.records import State
from batchmark.changes.metric import Metric
from batchmark.changes.records import (
    Change,
    ChangeKind,
    ChangePoint,
    Confirmation,
    Series,
    SeriesKey,
)
from batchmark.changes.shares import Rate
from batchmark.changes.suspects import too_early
from batchmark.core.record import Record

MOST_RUNS = 60  # in a trace
RUNS_BEFORE = 20  # of these, from before the change


class SeriesTrace(Record):
    """A changed series' values in the runs around the change, for the chart on the page."""

    series: SeriesKey
    metric: Metric
    first_run_id: str = Field(description="id of the first run with the change")
    first: int = Field(ge=0, description="index of that run's value")
    recorded_at: tuple[AwareDatetime, ...] = Field(description="when each run began")
    values: tuple[float, ...] = Field(
        min_length=1, description="values in the same unit as a level's median"
    )

    @classmethod
    def of(cls, history: Series, point: ChangePoint) -> Self | None:
        """Trace the usable runs around a change; None if the first run with it isn't usable."""
        kept = history.usable()
        ids = [history.run_ids[place] for place in kept]
        if point.first_run_id not in ids:
            return None
        first = ids.index(point.first_run_id)
        start = max(0, min(first - RUNS_BEFORE, len(kept) - MOST_RUNS))
        kept = kept[start : start + MOST_RUNS]
        return cls(
            series=point.series,
            metric=point.metric,
            first_run_id=point.first_run_id,
            first=first - start,
            recorded_at=tuple(history.began_at(place) for place in kept),
            values=tuple(float(history.values[place]) for place in kept),
        )


class ChangesSection(Record):
    """The changes that were found for a run by searching the history."""

    changes: tuple[Change, ...] = Field(description="changes, in the order in which they are shown")
    confirmations: tuple[Confirmation, ...] = Field(
        default=(), description="re-runs of this run's suspects, including refuted ones"
    )
    traces: tuple[SeriesTrace, ...] = Field(
        default=(), description="at most one trace per change point"
    )
    series: int = Field(ge=0, description="number of series searched")
    runs: int = Field(ge=0, description="number of runs in the longest series")
    notes: tuple[str, ...] = Field(
        default=(),
        description="notes, for example on suspects that were not re-run for lack of budget, or "
        "on series that are hard to monitor",
    )

    @classmethod
    def of(
        cls,
        changes: Iterable[Change],
        histories: Iterable[Series],
        *,
        confirmations: Iterable[Confirmation] = (),
        notes: Iterable[str] = (),
    ) -> Self:
        """Build the section from the `histories` searched; trace change points where possible."""
        found = tuple(changes)
        searched = {(history.key, history.metric): history for history in histories}
        traces = [
            SeriesTrace.of(history, point)
            for change in found
            for point in change.points
            if (history := searched.get((point.series, point.metric)))
        ]
        return cls(
            changes=found,
            confirmations=tuple(confirmations),
            traces=tuple(trace for trace in traces if trace),
            series=len(searched),
            runs=max((history.usable().size for history in searched.values()), default=0),
            notes=tuple(notes),
        )

    @property
    def too_early(self) -> str | None:
        """Why it is too early to find any changes; None if it isn't."""
        return None if self.changes else too_early(self.runs)

    def trace(self, point: ChangePoint) -> SeriesTrace | None:
        wanted = (point.series, point.metric, point.first_run_id)
        for trace in self.traces:
            if (trace.series, trace.metric, trace.first_run_id) == wanted:
                return trace
        return None


class AlertLine(Record):
    """An alert as listed in the report."""

    alert_id: str
    kind: ChangeKind
    title: str
    suite: str
    state: State
    since_run_id: str
    since: str | None = Field(default=None, description="the first run with the change, in words")
    change: float = Field(description="largest relative change: after / before - 1")
    change_url: str | None = Field(
        description="page where its state can be changed; null if Airflow's address is unknown"
    )
    note: str | None = None


class AlertBoard(Record):
    """Open and acknowledged alerts, and the proportion of alerts that turned out to be right."""

    lines: tuple[AlertLine, ...]
    precision: Rate | None = Field(
        default=None,
        description="share of correct alerts among all that were ever acknowledged, marked as "
        "fixed or invalid, or recovered; null if there are none",
    )
    how_to_change: str = Field(
        default="", description="how to change an alert's state; the last line is a command"
    )
