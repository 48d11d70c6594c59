"""Detects level changes and recoveries in the histories of many series.

Runs call `detect_changes`. `detect` is its counterpart for plain numbers, used by harnesses that
evaluate detectors. The search itself is in `change_points`, `noise_model` and `steps`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field

from batchmark.changes.change_points import LEAST_LOG_SHIFT, search
from batchmark.changes.common_shifts import common_series, shifts_of, with_common
from batchmark.changes.evidence import LEAST_AFTER, MOST_AFTER
from batchmark.changes.false_alerts import evidence_needed
from batchmark.changes.metric import Metric
from batchmark.changes.noise_model import CLIP, MAD_TO_SD, WINDOW, Array, Prior
from batchmark.changes.records import NEAR_RUNS, ChangePoint, Level, Series, SeriesKey, moment
from batchmark.changes.steps import LevelChange
from batchmark.changes.timelines import Timeline, ledger, timeline
from batchmark.core.record import Record

RUNS_BACK = 3  # in a row: two levels are known, so fewer runs tell them apart than find a new one
LEAST_SPREAD = 1e-6  # of equal figures: makes a step between them probable instead of certain


class DetectorSettings(Record):
    least_change: float = Field(
        default=round(float(np.expm1(LEAST_LOG_SHIFT)), 4),
        ge=0,
        description="smallest relative shift that counts as a change, however certain "
        "smaller ones are",
    )
    false_alerts_a_month: float = Field(
        default=1.0,
        gt=0,
        description="number of regressions a month that noise alone may cause in a suite's series",
    )
    runs: int = Field(
        default=200, ge=20, description="number of each series' most recent runs to search"
    )


def detect_changes(
    histories: Sequence[Series],
    settings: DetectorSettings | None = None,
    priors: Mapping[SeriesKey, Prior] | None = None,
) -> list[ChangePoint]:
    """Find all level changes, in both directions, that later runs don't refute.

    The more series there are, the more evidence each needs, to keep false alerts as rare as the
    settings demand. `priors` contains the calibrated noise of series of times.
    """
    chosen = settings or DetectorSettings()
    known = priors or {}
    times = [place for place, history in enumerate(histories) if history.metric == Metric.TIME]
    commons = common_series([histories[place] for place in times])
    every = [*histories, *(common.series for common in commons)]
    lines = [ledger(history, chosen.runs) for history in every]
    needed = {
        metric: evidence_needed(
            [one for one in histories if one.metric == metric], chosen.false_alerts_a_month
        )
        for metric in {one.metric for one in histories}
    }
    least_log_shift = float(np.log1p(chosen.least_change))
    found = search(
        # A speedup that falls is the bad news, and the search finds rises sooner.
        [
            -line.logs if history.metric == Metric.SPEEDUP else line.logs
            for history, line in zip(every, lines, strict=True)
        ],
        [
            known.get(history.key, Prior()) if history.metric == Metric.TIME else Prior()
            for history in every
        ],
        least_log_shift,
        fresh=[history.has_fresh for history in every],
        evidence=[needed[history.metric] for history in every],
    )
    for place, common in enumerate(commons, len(histories)):
        shifts = shifts_of(lines[place], found[place], least_log_shift)
        for row in (times[each] for each in common.rows):
            found[row] = with_common(found[row], lines[row], shifts)
    return [
        point
        for place, history in enumerate(histories)
        for point in _points(history, lines[place], found[place])
    ]


def detect(series: Sequence[float]) -> list[int]:
    """Return the index of each new level's first run, given one figure per run, oldest first.

    Values that aren't finite and above 0 count as missing.

    Raises:
        ValueError: there are figures below 0 and none above.
    """
    values = np.asarray(series, dtype=float)
    if (values < 0).any() and not (values > 0).any():
        raise ValueError(
            f"the figures range from {float(np.nanmin(values)):g} to "
            f"{float(np.nanmax(values)):g}: use figures above 0, because changes are "
            "found in their logarithms"
        )
    places = np.flatnonzero(np.isfinite(values) & (values > 0))
    return [int(places[change.index]) for change in search([np.log(values[places])])[0]]


def level(logs: Array, runs: int) -> Level:
    """Summarise the figures between two changes: logs of shape (n,), n >= runs >= 1."""
    center = float(np.median(logs))
    spread = MAD_TO_SD * float(np.median(np.abs(logs - center)))
    return Level(
        median=float(np.exp(center)),
        spread=float(np.expm1(spread)) if logs.size > 1 else None,
        runs=runs,
        fresh=logs.size - runs,
    )


def _points(
    history: Series, line: Timeline, changes: Iterable[LevelChange]
) -> Iterator[ChangePoint]:
    known = list(changes)
    borders = [0, *(change.index for change in known), line.logs.size]
    for start, change, end in zip(borders[:-2], known, borders[2:], strict=True):
        point = change_point(history, line, start, change.index, end)
        drift = None if change.drift is None else float(np.expm1(change.drift))
        yield point.model_copy(update={"drift": drift, "common": change.common})


def change_point(history: Series, line: Timeline, start: int, index: int, end: int) -> ChangePoint:
    """Build the record for one change in a series.

    In `line`, the old level's figures begin at `start`, and the new level's begin at `index` and
    stop before `end`.
    """
    before, after = line.logs[start:index], line.logs[index:end]
    # Fresh jobs of the change's first run may be the first slow ones.
    earlier = list(dict.fromkeys(one for one in line.run_ids[:index] if one != line.run_ids[index]))
    since = list(dict.fromkeys(line.run_ids[index:]))
    old = level(before, len(set(line.run_ids[start:index])))
    new = level(after, len(set(line.run_ids[index:end])))
    return ChangePoint(
        series=history.key,
        metric=history.metric,
        first_run_id=since[0],
        first_recorded_at=moment(line.recorded_at[index]),
        first_began_at=history.began.get(since[0]),
        last_run_id=earlier[-1],
        near_run_ids=(*earlier[-NEAR_RUNS:], *since[: NEAR_RUNS + 1]),
        before=old,
        after=new,
        change=new.median / old.median - 1,
        p_value=p_value(before, after),
    )


def p_value(before: Array, after: Array) -> float:
    """Return the probability that equal levels would differ as much as these logs, (m,) and (n,).

    Uses Student's t between the runs nearest to the change, with clipped outliers, multiplied by
    the number of lengths that the search tries (Bonferroni).
    """
    near = (before[-WINDOW:], after[:WINDOW])
    clipped = [_clipped(logs) for logs in near]
    degrees = sum(logs.size for logs in clipped) - 2
    if degrees < 1:
        return 1.0
    squares = sum(float(np.sum((logs - logs.mean()) ** 2)) for logs in clipped)
    error = np.sqrt(squares / degrees * sum(1 / logs.size for logs in clipped)) + LEAST_SPREAD
    t = abs(float(clipped[1].mean() - clipped[0].mean())) / error
    return min(1.0, (MOST_AFTER - LEAST_AFTER + 1) * 2 * float(scipy.special.stdtr(degrees, -t)))


def _clipped(logs: Array) -> Array:
    """Clip outliers to CLIP robust standard deviations from the median."""
    center = np.median(logs)
    bound = CLIP * MAD_TO_SD * np.median(np.abs(logs - center)) + LEAST_SPREAD
    return np.clip(logs, center - bound, center + bound)


def controlled_false_discoveries(
    p_values: Sequence[float], tests: int, rate: float
) -> NDArray[np.bool_]:
    """Select results so that at most a fraction `rate` of them is expected to be false.

    Benjamini and Hochberg, J. R. Stat. Soc. B 57 (1995) 289. Takes and returns shape (n,); if
    `tests` is larger than n, the other tests count as p = 1.
    """
    others = np.ones(max(0, tests - len(p_values)))
    adjusted = scipy.stats.false_discovery_control(np.concatenate([p_values, others]))
    return np.asarray(adjusted[: len(p_values)] <= rate)


def recoveries(histories: Iterable[Series], slower: Iterable[ChangePoint]) -> Iterator[ChangePoint]:
    """Yield a change point for each series of times that has returned to its pre-alert level.

    `slower` contains the change points of alerts that can still recover. Common shifts are left to
    the search, because noise alone can bring a single row back for three runs.
    """
    by_key = {history.key: history for history in histories}
    for point in (one for one in slower if not one.common):
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
            yield change_point(history, line, first, back, line.logs.size)
