"""What a report is given of changes: those found, the re-runs' verdicts, and open alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pydantic import AwareDatetime, Field

from batchmark.alerts.records import State
from batchmark.change_records import Change, ChangePoint, Confirmation, Kind, Metric, SeriesKey
from batchmark.rates import Rate
from batchmark.record import Record
from batchmark.series_history import moment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from batchmark.series_history import SeriesHistory

MOST_RUNS = 60  # that a trace shows
RUNS_BEFORE = 20  # of these, kept before a change


class SeriesTrace(Record):
    """A changed series over its latest runs, as the page draws it."""

    series: SeriesKey
    metric: Metric
    first_run_id: str = Field(description="of the change point that it is drawn for")
    first: int = Field(ge=0, description="place of that run among the values")
    recorded_at: tuple[AwareDatetime, ...]
    values: tuple[float, ...] = Field(min_length=1, description="in the unit of a level's median")

    @classmethod
    def of(cls, history: SeriesHistory, point: ChangePoint) -> Self | None:
        """The latest runs that count, the change among them; None if its run is not there."""
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
            recorded_at=tuple(moment(history.recorded_at[place]) for place in kept),
            values=tuple(float(history.values[place]) for place in kept),
        )


class ChangesSection(Record):
    """What the look at the history after a run found."""

    changes: tuple[Change, ...] = Field(description="in the order in which they are shown")
    confirmations: tuple[Confirmation, ...] = Field(
        default=(), description="of every suspect of this run, refuted ones too"
    )
    traces: tuple[SeriesTrace, ...] = Field(default=(), description="of the changes' points")
    series: int = Field(ge=0, description="looked at")
    runs: int = Field(ge=0, description="that the longest of these has")
    notes: tuple[str, ...] = Field(
        default=(), description="such as suspects that there was no budget to re-run"
    )

    @classmethod
    def of(
        cls,
        changes: Iterable[Change],
        histories: Iterable[SeriesHistory],
        *,
        confirmations: Iterable[Confirmation] = (),
        notes: Iterable[str] = (),
    ) -> Self:
        """With the traces of all points.

        Args:
            histories: all that were looked at, of any metrics.
        """
        found = tuple(changes)
        looked_at = {(one.key, one.metric): one for one in histories}
        traces = [
            SeriesTrace.of(history, point)
            for change in found
            for point in change.points
            if (history := looked_at.get((point.series, point.metric)))
        ]
        return cls(
            changes=found,
            confirmations=tuple(confirmations),
            traces=tuple(one for one in traces if one),
            series=len(looked_at),
            runs=max((len(set(one.run_ids)) for one in looked_at.values()), default=0),
            notes=tuple(notes),
        )

    def trace(self, point: ChangePoint) -> SeriesTrace | None:
        wanted = (point.series, point.metric, point.first_run_id)
        for one in self.traces:
            if (one.series, one.metric, one.first_run_id) == wanted:
                return one
        return None


class AlertLine(Record):
    """An alert as the report lists it."""

    alert_id: str
    kind: Kind
    title: str
    suite: str
    state: State
    since_run_id: str
    change: float = Field(description="after / before - 1, of the largest of its points")
    change_url: str | None = Field(
        description="of the page with the form that changes its state; null without an address "
        "of Airflow"
    )
    note: str | None = None


class AlertBoard(Record):
    """Alerts that are not closed, and how often people found them right."""

    lines: tuple[AlertLine, ...]
    precision: Rate | None = Field(
        default=None,
        description="of all alerts ever that were acknowledged, fixed, recovered or called "
        "invalid, those that were not called invalid; null where there is none",
    )
    how_to_change: str = Field(default="", description="what a person types; its last line")
