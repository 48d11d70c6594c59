"""Replays histories run by run, optionally with steps inserted into some of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from batchmark.changes.records import ChangePoint, Series, SeriesKey


@dataclass(frozen=True)
class PlacedSeries:
    """A series with one usable figure per run, and its runs' positions among all runs."""

    series: Series
    places: Sequence[int]  # shape (n,), ascending

    @property
    def key(self) -> SeriesKey:
        return self.series.key

    def until(self, place: int, step: tuple[int, float] | None = None) -> Series:
        """Return the series up to and including a position.

        A step consists of a run's index in the series and a factor for the values from that run on.
        """
        end, whole = bisect_right(self.places, place), self.series
        values = whole.values[:end]
        if step:
            first, factor = step
            values = values.copy()
            values[first:] *= factor
        return Series(whole.key, whole.metric, whole.run_ids[:end], whole.recorded_at[:end], values)


class Replay:
    """Replays series as a schedule would have seen them after each run."""

    def __init__(self, histories: Sequence[Series]) -> None:
        began: dict[str, np.datetime64] = {}
        for history in histories:
            for run, at in zip(history.run_ids, history.recorded_at, strict=True):
                began[run] = min(at, began.get(run, at))
        order = sorted(began, key=lambda run: (began[run], run))
        self.runs = len(order)  # number of runs; a place is one of range(runs), in order of time
        self._place = {run: place for place, run in enumerate(order)}
        placed = (self._placed(history) for history in histories)
        self.series = [one for one in placed if one.places]
        self._numbers = {one.key: number for number, one in enumerate(self.series)}

    def at(self, place: int, steps: Mapping[int, tuple[int, float]]) -> list[Series]:
        """Return the series as of the run at `place`, omitting any that have no runs yet.

        `steps` maps series numbers to steps in the form that `PlacedSeries.until` takes.
        """
        found = [one.until(place, steps.get(number)) for number, one in enumerate(self.series)]
        return [one for one in found if one.run_ids]

    def measured_at(self, place: int) -> list[Series]:
        """Return the series that the run at `place` measured, up to and including that run."""
        return [one.until(place) for one in self.series if place in one.places]

    def find(self, point: ChangePoint) -> tuple[int, int]:
        """Return the number of a point's series and the index of the point's first run in it."""
        number = self._numbers[point.series]
        return number, self.series[number].places.index(self._place[point.first_run_id])

    def _placed(self, history: Series) -> PlacedSeries:
        of_run = {self._place[history.run_ids[number]]: number for number in history.usable()}
        places = sorted(of_run)
        numbers = [of_run[place] for place in places]
        return PlacedSeries(
            Series(
                history.key,
                history.metric,
                [history.run_ids[number] for number in numbers],
                history.recorded_at[numbers],
                history.values[numbers],
            ),
            places,
        )
