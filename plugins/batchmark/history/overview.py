"""The newest runs, and where each row stands against its level, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from batchmark.changes.metric import Metric
from batchmark.changes.records import Series, moment
from batchmark.changes.standing import Standing, standings
from batchmark.core import formatting, row_values
from batchmark.history.series import series_histories

NAME_WIDTH = 31
RUNS_SHOWN = 10


def overview(suite: str, table: pa.Table, runs: int = RUNS_SHOWN) -> Iterator[str]:
    """What a suite's rows come to; `table` has the columns of `history.series`."""
    found = [series for series in series_histories(table, Metric.TIME) if series.usable().size]
    if not found:
        yield f"suite {suite}: no row was measured"
        return
    yield from _newest(suite, found, runs)
    yield ""
    yield f"{'row, target':{NAME_WIDTH}} {'runs':>4} {'newest':>8} {'before':>8}  change"
    known = standings(found)
    for series in sorted(found, key=lambda one: (one.key.target, one.key.row)):
        yield from _line(series, known[series.key])


def _newest(suite: str, found: list[Series], runs: int) -> Iterator[str]:
    """A line for each of the newest runs: when, and how much it measured on all targets."""
    seen: dict[str, tuple[np.datetime64, int]] = {}
    for series in found:
        for place in series.usable().tolist():
            run_id, at = series.run_ids[place], series.recorded_at[place]
            last, measured = seen.get(run_id, (at, 0))
            seen[run_id] = max(last, at), measured + 1
    newest = sorted(seen.items(), key=lambda item: item[1][0], reverse=True)
    yield f"suite {suite}: {formatting.count(len(newest), 'run')}, the newest first"
    for run_id, (at, measured) in newest[:runs]:
        figures = formatting.count(measured, "measurement")
        yield f"  {moment(at):%Y-%m-%d %H:%M}  {run_id}, {figures}"
    if len(newest) > runs:
        yield f"  and {len(newest) - runs} earlier ones"


def _line(series: Series, standing: Standing) -> Iterator[str]:
    """The newest figure beside its level, what the distance is worth, and the last change."""
    word, level, point = standing
    usable = series.usable()
    newest = float(series.values[usable[-1]])
    name = f"{series.key.row}, {series.target_label}"
    if len(name) > NAME_WIDTH:
        yield name
        name = ""
    latest = row_values.text(series.key.values, newest)
    earlier = row_values.text(series.key.values, level.median) if level else "-"
    change = f"{_share(series, newest / level.median - 1)}, {word}" if level else word
    yield f"{name:{NAME_WIDTH}} {usable.size:>4} {latest:>8} {earlier:>8}  {change}"
    if point:
        share, since = _share(series, point.change), point.first_recorded_at
        old = row_values.text(series.key.values, point.before.median)
        yield f"{'':{NAME_WIDTH}} {share}, a change since {since:%Y-%m-%d}, from {old}"


def _share(series: Series, moved: float) -> str:
    """A relative change of its figures, as people read them."""
    return formatting.change(row_values.change(series.key.values, moved))
