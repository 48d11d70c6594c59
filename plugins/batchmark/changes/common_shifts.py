"""Finds shifts shared by a target's rows, even if no single row shows them.

A new driver or image moves most rows of a target at once. In a single row, a shift of 3 % can be
lost in noise. The median over all rows of each row's distance from its own median is far less
noisy, and a change in a single row hardly affects it. It is therefore searched like any other
series, and its changes are added to the rows that moved with it.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from batchmark.changes.evidence import LEAST_BEFORE, LEAST_BETWEEN
from batchmark.changes.metric import Metric
from batchmark.changes.noise_model import Array, median_of_rows
from batchmark.changes.records import NEAR_RUNS, Series, SeriesKey
from batchmark.changes.steps import LevelChange
from batchmark.changes.timelines import Timeline, timeline

# All are judgment.
FEWEST_ROWS = 3  # two rows can move together by chance
MEASURED = 0.5  # share of the rows there were, that a run has to have measured
OLD_ENOUGH = 0.5  # share of the runs of the oldest row, that a row has to have
MOVED = 0.5  # share of the common shift, that a row has to have
LATE_RUNS = 10  # by which a row's noise may make its own change of the same level begin later


class Common(NamedTuple):
    """The shared movement of a machine's rows, as a unitless series."""

    series: Series
    rows: list[int]  # places of the rows' series among all


class Shift(NamedTuple):
    """A change in the shared movement of a machine's rows."""

    run_ids: frozenset[str]  # from its first run on
    log_shift: float
    drift: float | None


def common_series(histories: Sequence[Series]) -> list[Common]:
    """Build each machine's common series from histories of times, if it has enough rows.

    Rows far younger than the others are left out, because their median reflects only their newest
    level. So are metrics reported by users' own jobs, which need not move the way times do.
    """
    machines: dict[SeriesKey, list[int]] = defaultdict(list)
    for place, one in enumerate(histories):
        if one.key.is_metric:
            continue
        machines[one.key.machine].append(place)
    runs = [one.usable().size for one in histories]
    found = []
    for key, every in machines.items():
        least = max(LEAST_BEFORE, OLD_ENOUGH * max(runs[place] for place in every))
        rows = [place for place in every if runs[place] >= least]
        if len(rows) >= FEWEST_ROWS:
            found.append(Common(_median_row(key, [histories[row] for row in rows]), rows))
    return found


def _median_row(key: SeriesKey, rows: Sequence[Series]) -> Series:
    lines = [timeline(row) for row in rows]
    at: dict[str, np.datetime64] = {}
    for line in lines:
        at.update(zip(line.run_ids, line.recorded_at, strict=True))
    column = {run_id: place for place, run_id in enumerate(at)}
    off = np.full((len(at), len(rows)), np.nan)
    for number, line in enumerate(lines):
        places = [column[run_id] for run_id in line.run_ids]
        off[places, number] = line.logs - np.median(line.logs)
    when = np.array(list(at.values()), dtype="datetime64[us]")
    began, ended = (np.sort([line.recorded_at[end] for line in lines]) for end in (0, -1))
    there = np.searchsorted(began, when, "right") - np.searchsorted(ended, when, "left")
    counts = np.count_nonzero(~np.isnan(off), axis=1)
    kept = np.flatnonzero(counts >= np.maximum(FEWEST_ROWS, MEASURED * there))
    run_ids = list(at)
    return Series(
        key,
        Metric.TIME,
        [run_ids[place] for place in kept],
        when[kept],
        np.exp(median_of_rows(off[kept], counts[kept])),
    )


def shifts_of(
    common: Timeline, shown: Sequence[LevelChange], least_log_shift: float
) -> list[Shift]:
    """Return all but the small changes in a common series, with their current sizes in logs."""
    if not shown:
        return []
    borders = [0, *(change.index for change in shown), common.logs.size]
    medians = [_median(common.logs, start, end) for start, end in pairwise(borders)]
    return [
        Shift(frozenset(common.run_ids[change.index :]), after - before, change.drift)
        for change, (before, after) in zip(shown, pairwise(medians), strict=True)
        if abs(after - before) > least_log_shift
    ]


def with_common(
    own: Sequence[LevelChange], line: Timeline, shifts: Sequence[Shift]
) -> list[LevelChange]:
    """Combine a row's own changes with the common changes that its figures followed.

    A common change replaces the row's own change to the same level, which noise can delay.
    """
    at = [
        next((place for place, run_id in enumerate(line.run_ids) if run_id in shift.run_ids), None)
        for shift in shifts
    ]
    borders = [place for place in at if place is not None]
    # Of each figure: a run's fresh jobs follow its own.
    run = list(accumulate((a != b for a, b in pairwise(line.run_ids)), initial=0))
    found = list(own)
    for index, shift in zip(at, shifts, strict=True):
        if index is None or any(abs(run[one.index] - run[index]) <= NEAR_RUNS for one in found):
            continue
        start = max((one for one in (*_places(found), *borders) if one < index), default=0)
        if run[index] - run[start] < LEAST_BETWEEN:
            continue
        later = min((one for one in borders if one > index), default=line.logs.size)
        level = _median(line.logs, start, index)
        late = next(
            (
                one
                for one in found
                if index < one.index < later
                and run[one.index] - run[index] <= LATE_RUNS
                and (_median(line.logs, one.index, later) - level) * shift.log_shift > 0
            ),
            None,
        )
        rest = [one for one in found if one is not late]
        end = min((one for one in _places(rest) if index < one < later), default=later)
        if (_median(line.logs, index, end) - level) / shift.log_shift >= MOVED:
            found = rest
            common = LevelChange(index, end, shift.drift, common=True)
            insort(found, common, key=lambda one: one.index)
    return found


def _places(changes: Sequence[LevelChange]) -> list[int]:
    return [one.index for one in changes]


def _median(logs: Array, start: int, end: int) -> float:
    return float(np.median(logs[start:end]))
