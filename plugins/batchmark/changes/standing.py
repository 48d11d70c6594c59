"""Compares each series' newest run with its current level, and judges the difference.

The level is based on the runs since the last change. A single run beyond the noise could be an
outlier or the first run of a new level, so its verdict stays open.
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
    """A verdict on how a series' newest run compares with its level."""

    # "a change" if a level begins with it; None for a price, which has no noise to stand out from.
    word: Word | None = None
    level: Level | None = None  # that it is held against, and no part of; None for a first run
    point: ChangePoint | None = None  # the last change of the series


def standings(
    histories: Sequence[Series],
    settings: DetectorSettings | None = None,
    alerted: Iterable[ChangePoint] = (),
) -> dict[SeriesKey, Standing]:
    """Judge the newest runs of a metric's series, controlling the overall false discovery rate.

    `alerted` contains the metric's changes from alerts; they count alongside those still detected.
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
    """Return changes by series, listing those that are both detected and in an alert only once."""
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
    """Return a series' standing, and the tail probability if noise must still be ruled out."""
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
    """Return the two-sided probability that noise alone puts the newest run this far off its level.

    The noise is estimated from the runs of all levels, each relative to its own level.
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
