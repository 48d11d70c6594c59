"""Changes of level in the histories of many series, and recoveries.

`detect_changes` is what a run calls. `detect` does the same for bare numbers: harnesses that judge
detectors call it. The search itself is in `change_points` and `noise_model`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import stats

from batchmark.changes.change_points import (
    LEAST_AFTER,
    LEAST_LOG_SHIFT,
    MOST_AFTER,
    WINDOW,
    LevelChange,
    search,
)
from batchmark.changes.noise_model import CLIP, MAD_TO_SD, Prior
from batchmark.changes.records import ChangePoint, Level, Series, SeriesKey, moment
from batchmark.core.record import Record

if TYPE_CHECKING:
    from batchmark.changes.noise_model import Array

NEAR_RUNS = 3  # on either side, to which a later run may move a change
RUNS_BACK = 3  # in a row: two levels are known, so fewer runs tell them apart than find a new one
LEAST_SPREAD = 1e-6  # of equal figures: makes a step between them probable instead of certain


class DetectorSettings(Record):
    """What counts as a change."""

    least_change: float = Field(
        default=round(float(np.expm1(LEAST_LOG_SHIFT)), 4),
        ge=0,
        description="relative; a smaller shift is no change, however sure",
    )
    false_discovery_rate: float = Field(
        default=0.05,
        gt=0,
        le=1,
        description="largest expected share of false changes among those of a metric's series",
    )
    runs: int = Field(default=200, ge=20, description="newest runs of a series that count")


class Timeline(NamedTuple):
    """A series' usable runs in order of time."""

    run_ids: list[str]  # of the n runs
    recorded_at: NDArray[np.datetime64]  # shape (n,)
    logs: Array  # shape (n,), natural logs of the figures


def timeline(series: Series, runs: int | None = None) -> Timeline:
    """Put a series' usable runs in order: all of them, or so many of the newest."""
    usable = series.usable()
    chosen = usable if runs is None else usable[-runs:]
    return Timeline(
        [series.run_ids[place] for place in chosen],
        series.recorded_at[chosen],
        np.log(np.asarray(series.values, dtype=float)[chosen]),
    )


def detect_changes(
    histories: Sequence[Series],
    settings: DetectorSettings | None = None,
    priors: Mapping[SeriesKey, Prior] | None = None,
) -> list[ChangePoint]:
    """Find every change of level, in both directions, that still shows at the end of the histories.

    The rate of false discoveries is controlled for each metric. Priors are what calibrations say of
    the noise of times.
    """
    chosen = settings or DetectorSettings()
    known = priors or {}
    lines = [timeline(history, chosen.runs) for history in histories]
    found = search(
        # A speedup that falls is the bad news, and the search finds rises sooner.
        [
            -line.logs if history.metric == "speedup" else line.logs
            for history, line in zip(histories, lines, strict=True)
        ],
        [
            known.get(history.key, Prior()) if history.metric == "time" else Prior()
            for history in histories
        ],
        float(np.log1p(chosen.least_change)),
    )
    points: dict[str, list[ChangePoint]] = defaultdict(list)
    searched: dict[str, int] = defaultdict(int)
    for history, line, changes in zip(histories, lines, found, strict=True):
        searched[history.metric] += 1
        points[history.metric] += _points(history, line, changes)
    return [
        point
        for metric, of_metric in points.items()
        for point in discoveries(of_metric, searched[metric], chosen.false_discovery_rate)
    ]


def detect(series: Sequence[float]) -> list[int]:
    """Find the indexes of the first run of each new level in a figure per run, oldest first.

    What is not finite and above 0 counts as missing.

    Raises:
        ValueError: there are figures below 0 and none above.
    """
    values = np.asarray(series, dtype=float)
    if (values < 0).any() and not (values > 0).any():
        raise ValueError(
            f"the figures are {float(np.nanmin(values)):g} to {float(np.nanmax(values)):g}: "
            "changes are found in logs, so give figures above 0"
        )
    places = np.flatnonzero(np.isfinite(values) & (values > 0))
    return [int(places[change.index]) for change in search([np.log(values[places])])[0]]


def level(logs: Array) -> Level:
    """Summarise the runs between two changes: logs of shape (n,), n at least 1."""
    center = float(np.median(logs))
    spread = MAD_TO_SD * float(np.median(np.abs(logs - center)))
    return Level(
        median=float(np.exp(center)),
        spread=float(np.expm1(spread)) if logs.size > 1 else None,
        runs=logs.size,
    )


def _points(
    history: Series, line: Timeline, changes: Iterable[LevelChange]
) -> Iterator[ChangePoint]:
    known = list(changes)
    borders = [0, *(change.index for change in known), line.logs.size]
    for start, change, end in zip(borders[:-2], known, borders[2:], strict=True):
        index, drift = change.index, change.drift
        before, after = line.logs[start:index], line.logs[index:end]
        point = change_point(history, line, index, before, after, p_value(before, after))
        yield point.model_copy(update={"drift": None if drift is None else float(np.expm1(drift))})


def change_point(
    history: Series, line: Timeline, index: int, before: Array, after: Array, p: float
) -> ChangePoint:
    """Describe a change of a series: `index` is of the first run of the new level in `line`.

    The figures on the two levels are logs.
    """
    old, new = level(before), level(after)
    return ChangePoint(
        series=history.key,
        metric=history.metric,
        first_run_id=line.run_ids[index],
        first_recorded_at=moment(line.recorded_at[index]),
        last_run_id=line.run_ids[index - 1],
        near_run_ids=tuple(line.run_ids[max(0, index - NEAR_RUNS) : index + NEAR_RUNS + 1]),
        before=old,
        after=new,
        change=new.median / old.median - 1,
        p_value=p,
    )


def p_value(before: Array, after: Array) -> float:
    """Probability that equal levels look as different as these logs, of shapes (m,) and (n,).

    Student's t between the runs nearest to the change, outliers clipped, times the number of
    lengths that the search tries (Bonferroni).
    """
    near = (before[-WINDOW:], after[:WINDOW])
    clipped = [_clipped(logs) for logs in near]
    degrees = sum(logs.size for logs in clipped) - 2
    if degrees < 1:
        return 1.0
    squares = sum(float(np.sum((logs - logs.mean()) ** 2)) for logs in clipped)
    error = np.sqrt(squares / degrees * sum(1 / logs.size for logs in clipped)) + LEAST_SPREAD
    t = abs(float(clipped[1].mean() - clipped[0].mean())) / error
    return min(1.0, (MOST_AFTER - LEAST_AFTER + 1) * 2 * float(stats.t.sf(t, degrees)))


def _clipped(logs: Array) -> Array:
    """With outliers pulled in to CLIP robust standard deviations."""
    center = np.median(logs)
    bound = CLIP * MAD_TO_SD * np.median(np.abs(logs - center)) + LEAST_SPREAD
    return np.clip(logs, center - bound, center + bound)


def controlled_false_discoveries(
    p_values: Sequence[float], tests: int, rate: float
) -> NDArray[np.bool_]:
    """Tell which results count if at most a share of `rate` of these is expected to be false.

    Benjamini and Hochberg, J. R. Stat. Soc. B 57 (1995) 289. Takes and returns shape (n,); of so
    many `tests`, those without a p-value have 1.
    """
    others = np.ones(max(0, tests - len(p_values)))
    adjusted = stats.false_discovery_control(np.concatenate([p_values, others]))
    return np.asarray(adjusted[: len(p_values)] <= rate)


def discoveries(points: Sequence[ChangePoint], tests: int, rate: float) -> Iterator[ChangePoint]:
    """The change points that count by `controlled_false_discoveries`."""
    counts = controlled_false_discoveries([point.p_value for point in points], tests, rate)
    return (point for point, one in zip(points, counts, strict=True) if one)


def recoveries(histories: Iterable[Series], slower: Iterable[ChangePoint]) -> Iterator[ChangePoint]:
    """Find the series of times that are back on their level from before an alert, and since when.

    `slower` are change points of alerts that are not closed.
    """
    by_key = {history.key: history for history in histories}
    for point in slower:
        history = by_key.get(point.series)
        line = timeline(history) if history else None
        if history is None or line is None or point.first_run_id not in line.run_ids:
            continue
        first = line.run_ids.index(point.first_run_id)
        middle = np.log(point.before.median * point.after.median) / 2
        slow = np.flatnonzero(line.logs[first:] > middle)
        # The alert's own first run may be a fast one, if the history placed it.
        back = first + max(int(slow[-1]) + 1 if slow.size else 1, 1)
        if line.logs.size - back >= RUNS_BACK:
            before, after = line.logs[first:back], line.logs[back:]
            yield change_point(history, line, back, before, after, p_value(before, after))
