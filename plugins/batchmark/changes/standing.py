"""The level that the newest run of each series is held against, and what the distance is worth.

It is that of the runs since the last change before the newest run. Of a single run beyond the noise
nobody knows yet whether it is an outlier or the first of a level.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from batchmark.changes.attribution import are_near
from batchmark.changes.detection import (
    DetectorSettings,
    controlled_false_discoveries,
    detect_changes,
    level,
)
from batchmark.changes.evidence import LEAST_BEFORE
from batchmark.changes.metric import Metric
from batchmark.changes.noise_model import Array, NoiseDensity, Prior, windows_before
from batchmark.changes.records import ChangePoint, Level, Series, SeriesKey
from batchmark.changes.suspects import TAIL
from batchmark.changes.timelines import timeline

LEAST_ON_LEVEL = 3  # runs; of two nobody knows which one is the outlier

Word = Literal["a change", "within the noise", "beyond the noise", "not known yet"]


class Standing(NamedTuple):
    """Where the newest run of a series stands."""

    # "a change" if a level begins with it; None for a price, which has no noise to stand out from.
    word: Word | None = None
    level: Level | None = None  # that it is held against, and no part of; None for a first run
    point: ChangePoint | None = None  # the last change of the series


def standings(
    histories: Sequence[Series],
    settings: DetectorSettings | None = None,
    alerted: Iterable[ChangePoint] = (),
) -> dict[SeriesKey, Standing]:
    """Judge the newest runs of a metric's series; false findings are controlled over all.

    `alerted` are changes of that metric in alerts: they count beside those that still show.
    """
    chosen = settings or DetectorSettings()
    points = _points(detect_changes(histories, chosen), alerted)
    found: dict[SeriesKey, Standing] = {}
    tails: dict[SeriesKey, float] = {}
    for one in histories:
        found[one.key], tail = _by_levels(one, points.get(one.key, ()), chosen.runs)
        if tail is not None:
            tails[one.key] = tail
    beyond = controlled_false_discoveries(list(tails.values()), len(tails), TAIL)
    for key, is_beyond in zip(tails, beyond, strict=True):
        word: Word = "beyond the noise" if is_beyond else "within the noise"
        found[key] = found[key]._replace(word=word)
    return found


def _points(
    detected: Iterable[ChangePoint], alerted: Iterable[ChangePoint]
) -> dict[SeriesKey, list[ChangePoint]]:
    """The changes of each series; one that was detected, and that an alert tells of, once."""
    points: dict[SeriesKey, list[ChangePoint]] = defaultdict(list)
    for point in detected:
        points[point.series].append(point)
    for point in alerted:
        if not any(are_near(point, other) for other in points[point.series]):
            points[point.series].append(point)
    return points


def _by_levels(
    series: Series, points: Iterable[ChangePoint], runs: int
) -> tuple[Standing, float | None]:
    """Where its newest run stands; its tail, too, where the noise is still to judge it."""
    line = timeline(series, runs)
    begins = {
        line.run_ids.index(point.first_run_id): point
        for point in points
        if point.first_run_id in line.run_ids
    }
    newest = line.logs.size - 1
    levels = np.split(line.logs[:-1], sorted(place for place in begins if 0 < place < newest))
    last = levels[-1]
    held = level(last, last.size) if last.size else None
    change = begins[max(begins)] if begins else None
    if series.metric == Metric.PRICE:
        return Standing(None, held, change), None
    if newest in begins:
        return Standing("a change", held, change), None
    enough = last.size >= LEAST_ON_LEVEL and newest >= LEAST_BEFORE
    tail = _tail(line.logs[-1], levels) if enough else None
    return Standing("not known yet", held, change), tail


def _tail(newest: float, levels: Sequence[Array]) -> float:
    """Probability that noise alone puts the newest run so far off the last level, either way.

    The noise is that of the runs of all levels, each about its own.
    """
    about = np.concatenate([logs - np.median(logs) for logs in levels])
    prior = Prior()
    noise = NoiseDensity.of(
        windows_before(about, np.array([about.size])),
        np.array([prior.log_sd]),
        np.array([prior.runs]),
    )
    # The fewer runs a level has, the less is known of where it is.
    off = (newest - np.median(levels[-1])) / np.sqrt(1 + 1 / levels[-1].size)
    slower = float(noise.tail(off - noise.center)[0])
    return 2 * min(slower, 1 - slower)
