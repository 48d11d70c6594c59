"""Changes of level in the history of each series, held down over all series looked at.

`detect_changes` is what a run calls; `detect` is the same on bare numbers, for those who judge
detectors. What decides is in `change_search` and `noise_density`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pydantic import Field
from scipy import stats

from batchmark.change_records import ChangePoint, Level
from batchmark.change_search import LEAST_LOG_SHIFT, LENGTHS, WINDOW, search
from batchmark.noise_density import MAD_TO_SD, Prior
from batchmark.record import Record
from batchmark.series_history import moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from batchmark.change_records import SeriesKey
    from batchmark.change_search import Found
    from batchmark.noise_density import Array
    from batchmark.series_history import SeriesHistory

NEAR_RUNS = 3  # on either side, that a later look may shift a change
LEAST_SPREAD = 1e-6  # of equal figures, so that a step between them is possible, not certain


class DetectorSettings(Record):
    """What makes a change worth the name."""

    least_change: float = Field(
        default=round(float(np.expm1(LEAST_LOG_SHIFT)), 4),
        ge=0,
        description="relative; smaller shifts of a level are none, however sure",
    )
    false_discovery_rate: float = Field(
        default=0.05,
        gt=0,
        le=1,
        description="share of false ones among the changes of all series of a metric, at most",
    )
    runs: int = Field(default=200, ge=20, description="newest runs of a series that are looked at")


class Timeline(NamedTuple):
    """A series' usable runs in their order.

    Attributes:
        run_ids: n.
        recorded_at: shape (n,).
        logs: shape (n,), of the figures.
    """

    run_ids: list[str]
    recorded_at: NDArray[np.datetime64]
    logs: Array


def timeline(history: SeriesHistory, runs: int | None = None) -> Timeline:
    """The runs that count, in their order.

    Args:
        runs: how many of the newest; None for all.
    """
    usable = history.usable()
    chosen = usable if runs is None else usable[-runs:]
    return Timeline(
        [history.run_ids[place] for place in chosen],
        history.recorded_at[chosen],
        np.log(np.asarray(history.values, dtype=float)[chosen]),
    )


def detect_changes(
    histories: Sequence[SeriesHistory],
    settings: DetectorSettings | None = None,
    priors: Mapping[SeriesKey, Prior] | None = None,
) -> list[ChangePoint]:
    """Every change of level that stands at the end of the histories, in both directions.

    Args:
        histories: of any metrics; the rate of false discoveries is held for each metric.
        settings: None for the default.
        priors: what calibrations say of the noise of times.
    """
    chosen = settings or DetectorSettings()
    known = priors or {}
    lines = [timeline(history, chosen.runs) for history in histories]
    found = search(
        # Of a speedup the fall is what somebody waits to hear of.
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
    looked_at: dict[str, int] = defaultdict(int)
    for history, line, changes in zip(histories, lines, found, strict=True):
        looked_at[history.metric] += 1
        points[history.metric] += _points(history, line, changes)
    rate = chosen.false_discovery_rate
    return [
        point
        for metric, own in points.items()
        for point, stands in zip(
            own, held_down([one.p_value for one in own], looked_at[metric], rate), strict=True
        )
        if stands
    ]


def detect(series: Sequence[float]) -> list[int]:
    """Indexes of the first run of each new level.

    Args:
        series: one figure a run, oldest first; what is not finite and above 0 counts as missing.
    """
    values = np.asarray(series, dtype=float)
    places = np.flatnonzero(np.isfinite(values) & (values > 0))
    return [int(places[change.index]) for change in search([np.log(values[places])])[0]]


def level(logs: Array) -> Level:
    """What runs between two changes have in common.

    Args:
        logs: shape (n,), n at least 1.
    """
    center = float(np.median(logs))
    spread = MAD_TO_SD * float(np.median(np.abs(logs - center)))
    return Level(
        median=float(np.exp(center)),
        spread=float(np.expm1(spread)) if logs.size > 1 else None,
        runs=logs.size,
    )


def _points(
    history: SeriesHistory, line: Timeline, changes: Iterable[Found]
) -> Iterable[ChangePoint]:
    indexes = [change.index for change in changes]
    borders = [0, *indexes, line.logs.size]
    for start, index, end in zip(borders[:-2], indexes, borders[2:], strict=True):
        before, after = line.logs[start:index], line.logs[index:end]
        yield change_point(history, line, index, before, after, p_value(before, after))


def change_point(
    history: SeriesHistory, line: Timeline, index: int, before: Array, after: Array, p: float
) -> ChangePoint:
    """A change at a run of a series.

    Args:
        index: of the first run of the new level in `line`.
        before, after: logs of the figures on the two levels.
        p: see `p_value`.
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
    """How often equal levels look as different, among as many lengths as are tried.

    Student's t over the runs nearest to the change, outliers pulled in to three robust standard
    deviations, times the number of lengths (Bonferroni).
    """
    near = (before[-WINDOW:], after[:WINDOW])
    pulled = [_pulled_in(logs) for logs in near]
    degrees = sum(logs.size for logs in pulled) - 2
    if degrees < 1:
        return 1.0
    squares = sum(float(np.sum((logs - logs.mean()) ** 2)) for logs in pulled)
    error = np.sqrt(squares / degrees * sum(1 / logs.size for logs in pulled)) + LEAST_SPREAD
    t = abs(float(pulled[1].mean() - pulled[0].mean())) / error
    return min(1.0, len(LENGTHS) * 2 * float(stats.t.sf(t, degrees)))


def _pulled_in(logs: Array) -> Array:
    center = np.median(logs)
    bound = 3 * MAD_TO_SD * np.median(np.abs(logs - center)) + LEAST_SPREAD
    return np.clip(logs, center - bound, center + bound)


def held_down(p_values: Sequence[float], looked_at: int, rate: float) -> NDArray[np.bool_]:
    """Which of some results stand, if at most a share of `rate` of those that do may be false.

    By the rule of Benjamini and Hochberg, J. R. Stat. Soc. B 57 (1995) 289.

    Args:
        p_values: of the results that are worth a thought.
        looked_at: how many there could have been.
    """
    others = np.ones(max(0, looked_at - len(p_values)))
    adjusted = stats.false_discovery_control(np.concatenate([p_values, others]))
    return np.asarray(adjusted[: len(p_values)] <= rate)
