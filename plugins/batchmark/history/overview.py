"""The newest runs, and where each row stands against its level, as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa

from batchmark.changes.metric import Metric
from batchmark.changes.records import Series
from batchmark.changes.standing import Standing, standings
from batchmark.core import formatting, row_values
from batchmark.history.columns import IMPORTED
from batchmark.history.series import runs_of, series_histories

NAME_WIDTH = 31
RUNS_SHOWN = 10


def overview(suite: str, table: pa.Table, runs: int = RUNS_SHOWN) -> Iterator[str]:
    """What a suite's rows come to; `table` has the columns of `history.series`."""
    found = [series for series in series_histories(table, Metric.TIME) if series.usable().size]
    if not found:
        yield f"suite {suite}: no row was measured"
        return
    every = runs_of(table)
    newest, _ = every[0]
    yield from _runs(suite, found, every, runs)
    yield ""
    yield f"{'row, target':{NAME_WIDTH}} {'runs':>4} {'newest':>8} {'before':>8}  change"
    known = standings(found)
    for series in sorted(found, key=lambda one: (one.key.target, one.key.row)):
        yield from _line(series, known[series.key])
        if suite != IMPORTED and series.run_ids[series.usable()[-1]] != newest:
            yield f"{'':{NAME_WIDTH}} not measured in the newest run"


def _runs(
    suite: str, found: list[Series], every: list[tuple[str, datetime]], most: int
) -> Iterator[str]:
    """A line for each of the newest runs: when, and how much it measured on all targets."""
    measured = Counter(series.run_ids[place] for series in found for place in series.usable())
    yield f"suite {suite}: {formatting.count(len(every), 'run')}, the newest first"
    for run_id, at in every[:most]:
        figures = formatting.count(measured[run_id], "measurement")
        yield f"  {at:%Y-%m-%d %H:%M}  {run_id}, {figures}"
    if len(every) > most:
        yield f"  and {len(every) - most} earlier ones"


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
