"""Shifts that the rows of a target have in common, and that no row need show by itself.

A new driver or image moves most rows of a target at once. Row by row, a shift of 3 % may drown in
the noise. The median over the rows of how far each is off its own median has far less of it, and a
change in a single row hardly moves it. So it is searched like any other series, and what it shows
is added to the rows that moved with it.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from batchmark.changes.evidence import LEAST_BEFORE, LEAST_BETWEEN
from batchmark.changes.records import NEAR_RUNS, Series, SeriesKey
from batchmark.changes.steps import LevelChange
from batchmark.changes.timelines import Timeline

if TYPE_CHECKING:
    from batchmark.changes.noise_model import Array

FEWEST_ROWS = 3  # judgment: two rows can move together by chance
LEAST_SHARE = 0.5  # of the rows, that a run has to have measured; of the shift, that a row has to


class Common(NamedTuple):
    """What the rows of a machine have in common, as a series without a unit."""

    series: Series
    rows: list[int]  # places of the rows' series among all


def common_series(histories: Sequence[Series]) -> list[Common]:
    """Find it for each machine with rows enough. Histories are of times."""
    machines: dict[SeriesKey, list[int]] = defaultdict(list)
    for place, one in enumerate(histories):
        if one.usable().size >= LEAST_BEFORE:
            machine = one.key.model_copy(
                update={"workload": None, "parameters": None, "dtype": None}
            )
            machines[machine].append(place)
    return [
        Common(_median_row(key, [histories[row] for row in rows]), rows)
        for key, rows in machines.items()
        if len(rows) >= FEWEST_ROWS
    ]


def _median_row(key: SeriesKey, rows: Sequence[Series]) -> Series:
    at: dict[str, np.datetime64] = {}
    logs: list[dict[str, float]] = []
    for row in rows:
        usable = row.usable()
        run_ids = [row.run_ids[place] for place in usable]
        about = np.log(np.asarray(row.values, dtype=float)[usable])
        logs.append(dict(zip(run_ids, about - np.median(about), strict=True)))
        at.update(zip(run_ids, row.recorded_at[usable], strict=True))
    measured = {run_id: [own[run_id] for own in logs if run_id in own] for run_id in at}
    kept = [run_id for run_id, own in measured.items() if len(own) >= LEAST_SHARE * len(rows)]
    return Series(
        key,
        "time",
        kept,
        np.array([at[run_id] for run_id in kept], dtype="datetime64[us]"),
        np.exp([np.median(measured[run_id]) for run_id in kept]),
    )


def with_common(
    own: Sequence[LevelChange], line: Timeline, common: Timeline, shown: Sequence[LevelChange]
) -> list[LevelChange]:
    """Add to a row's own changes those of its machine that it moved with.

    Both lines are in logs; `shown` are the changes of the common one.
    """
    found = list(own)
    shifts = _shifts(common.logs, [one.index for one in shown])
    for change, shift in zip(shown, shifts, strict=True):
        since = set(common.run_ids[change.index :])
        index = next((at for at, run_id in enumerate(line.run_ids) if run_id in since), None)
        if index is None or any(abs(one.index - index) <= NEAR_RUNS for one in found):
            continue
        start = max((one.index for one in found if one.index < index), default=0)
        end = min((one.index for one in found if one.index > index), default=line.logs.size)
        if index - start < LEAST_BETWEEN:
            continue
        moved = float(np.median(line.logs[index:end]) - np.median(line.logs[start:index]))
        if moved / shift >= LEAST_SHARE:
            insort(found, LevelChange(index, end, common=True), key=lambda one: one.index)
    return found


def _shifts(logs: Array, indexes: Sequence[int]) -> Iterator[float]:
    """The shift of the level at each of its changes."""
    levels: list[NDArray[np.float64]] = np.split(logs, indexes)
    medians = [float(np.median(level)) for level in levels]
    for before, after in pairwise(medians):
        yield after - before
