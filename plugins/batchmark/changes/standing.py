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
    told: Iterable[ChangePoint] = (),
) -> dict[SeriesKey, Standing]:
    """Judge the newest runs of a metric's series; false findings are controlled over all.

    `told` are changes of that metric that alerts tell of: they count beside those that still show.
    """
    chosen = settings or DetectorSettings()
    points: dict[SeriesKey, list[ChangePoint]] = defaultdict(list)
    for point in detect_changes(histories, chosen):
        points[point.series].append(point)
    for point in told:
        if not any(are_near(point, other) for other in points[point.series]):
            points[point.series].append(point)
    found: dict[SeriesKey, Standing] = {}
    tails: dict[SeriesKey, float] = {}
    for one in histories:
        line = timeline(one, chosen.runs)
        begins = {
            line.run_ids.index(point.first_run_id): point
            for point in points[one.key]
            if point.first_run_id in line.run_ids
        }
        newest = line.logs.size - 1
        borders = sorted(place for place in begins if 0 < place < newest)
        levels = np.split(line.logs[:-1], borders)
        held = level(levels[-1], levels[-1].size) if levels[-1].size else None
        word: Word | None = "not known yet"
        if one.metric == Metric.PRICE:
            word = None
        elif newest in begins:
            word = "a change"
        elif held and held.runs >= LEAST_ON_LEVEL and newest >= LEAST_BEFORE:
            tails[one.key] = _tail(line.logs[-1], levels)
        found[one.key] = Standing(word, held, begins[max(begins)] if begins else None)
    beyond = controlled_false_discoveries(list(tails.values()), len(tails), TAIL)
    for key, is_beyond in zip(tails, beyond, strict=True):
        judged: Word = "beyond the noise" if is_beyond else "within the noise"
        found[key] = found[key]._replace(word=judged)
    return found


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
