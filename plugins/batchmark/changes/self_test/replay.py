"""Histories as they stood after each of their runs, with or without a step in some of them."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from batchmark.series_history import SeriesHistory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from batchmark.change_records import ChangePoint, SeriesKey


@dataclass(frozen=True)
class PlacedSeries:
    """A series with one usable figure a run, in the order of the runs of its suite.

    Attributes:
        places: shape (n,), ascending, of its runs among all runs.
    """

    history: SeriesHistory
    places: Sequence[int]

    @property
    def key(self) -> SeriesKey:
        return self.history.key

    @property
    def values(self) -> NDArray[np.float64]:
        return self.history.values

    def until(self, place: int, step: tuple[int, float] | None = None) -> SeriesHistory:
        """Its runs up to a place; from run `step[0]` of its own on, `step[1]` times as slow."""
        end, own = bisect_right(self.places, place), self.history
        values = own.values[:end]
        if step:
            first, factor = step
            values = values.copy()
            values[first:] *= factor
        return SeriesHistory(own.key, own.metric, own.run_ids[:end], own.recorded_at[:end], values)


class Replay:
    """The series of one suite, run by run."""

    def __init__(self, histories: Sequence[SeriesHistory]) -> None:
        began: dict[str, np.datetime64] = {}
        for history in histories:
            for run, at in zip(history.run_ids, history.recorded_at, strict=True):
                began[run] = min(at, began.get(run, at))
        order = sorted(began, key=lambda run: (began[run], run))
        self.runs = len(order)
        self._place = {run: place for place, run in enumerate(order)}
        placed = (self._placed(history) for history in histories)
        self.series = [one for one in placed if one.places]
        self._numbers = {one.key: number for number, one in enumerate(self.series)}

    def at(self, place: int, steps: Mapping[int, tuple[int, float]]) -> list[SeriesHistory]:
        """What the detector would have been given after the run at `place`.

        Args:
            steps: by the series' number, as `PlacedSeries.until` takes them.
        """
        found = [one.until(place, steps.get(number)) for number, one in enumerate(self.series)]
        return [one for one in found if one.run_ids]

    def find(self, point: ChangePoint) -> tuple[int, int]:
        """The number of a point's series, and of its first run among the series' own."""
        number = self._numbers[point.series]
        return number, self.series[number].places.index(self._place[point.first_run_id])

    def _placed(self, history: SeriesHistory) -> PlacedSeries:
        of_run = {self._place[history.run_ids[number]]: number for number in history.usable()}
        places = sorted(of_run)
        numbers = [of_run[place] for place in places]
        return PlacedSeries(
            SeriesHistory(
                history.key,
                history.metric,
                [history.run_ids[number] for number in numbers],
                history.recorded_at[numbers],
                history.values[numbers],
            ),
            places,
        )
