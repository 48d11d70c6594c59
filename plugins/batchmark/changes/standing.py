"""Where the newest run of each series stands: changed, within the noise of those before, or open.

Of a single run beyond the noise nobody knows yet whether it is an outlier or the first of a level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from batchmark.changes.detection import (
    DetectorSettings,
    controlled_false_discoveries,
    detect_changes,
)
from batchmark.changes.evidence import LEAST_BEFORE
from batchmark.changes.noise_model import NoiseDensity, Prior, windows_before
from batchmark.changes.records import ChangePoint, Series, SeriesKey
from batchmark.changes.suspects import TAIL
from batchmark.changes.timelines import Timeline, timeline

Word = Literal["a change", "within the noise", "beyond the noise", "not known yet"]


class Standing(NamedTuple):
    word: Word
    point: ChangePoint | None = None  # the last change of the series


def standings(
    histories: Sequence[Series], settings: DetectorSettings | None = None
) -> dict[SeriesKey, Standing]:
    """Judge the newest runs of a metric's series; false findings are controlled over all."""
    chosen = settings or DetectorSettings()
    points = {
        point.series: point
        for point in sorted(
            detect_changes(histories, chosen), key=lambda one: one.first_recorded_at
        )
    }
    tails = {
        one.key: _tail(line)
        for one in histories
        if one.key not in points and (line := timeline(one, chosen.runs)).logs.size > LEAST_BEFORE
    }
    beyond = controlled_false_discoveries(list(tails.values()), len(tails), TAIL)
    noise: dict[SeriesKey, Word] = {
        key: "beyond the noise" if is_beyond else "within the noise"
        for key, is_beyond in zip(tails, beyond, strict=True)
    }
    return {
        one.key: Standing("a change", points[one.key])
        if one.key in points
        else Standing(noise.get(one.key, "not known yet"))
        for one in histories
    }


def _tail(line: Timeline) -> float:
    """Probability that noise alone puts the newest run at least so far off, on either side."""
    place, prior = line.logs.size - 1, Prior()
    noise = NoiseDensity.of(
        windows_before(line.logs, np.array([place])),
        np.array([prior.log_sd]),
        np.array([prior.runs]),
    )
    slower = float(noise.tail(line.logs[-1:] - noise.center)[0])
    return 2 * min(slower, 1 - slower)
