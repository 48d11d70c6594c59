"""Writes a text overview: the newest runs, and how each row compares with its earlier level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from batchmark.changes.metric import Metric
from batchmark.changes.records import Series
from batchmark.changes.standing import Standing, standings
from batchmark.core import formatting, row_values
from batchmark.core.names import row_order, run_name, target_order
from batchmark.core.version import Version, since
from batchmark.history.columns import IMPORTED
from batchmark.history.series import HistoryRun, runs_of, series_histories

NAME_WIDTH = 31  # leaves 24 of 80 columns for the change
RUNS_SHOWN = 10  # judgment: with two or three lines each, about a screen


def overview(suite: str, table: pa.Table, runs: int = RUNS_SHOWN) -> Iterator[str]:
    """Yield a suite's overview; `table` must have COLUMNS and VERSION of `history.series`."""
    found = [series for series in series_histories(table, Metric.TIME) if series.usable().size]
    if not found:
        yield f"suite {suite}: no rows were measured"
        return
    every = runs_of(table)
    yield from _runs(suite, found, every, runs)
    yield ""
    yield f"{'row, target':{NAME_WIDTH}} {'runs':>4} {'newest':>8} {'before':>8}  change"
    known = standings(found)
    for series in sorted(
        found, key=lambda one: (target_order(one.key.target), row_order(one.key.row))
    ):
        yield from _line(series, known[series.key], table)
        if suite != IMPORTED and series.run_ids[series.usable()[-1]] != every[0].run_id:
            yield f"{'':{NAME_WIDTH}} not measured in the newest run"


def _runs(suite: str, found: list[Series], every: list[HistoryRun], most: int) -> Iterator[str]:
    """List the newest runs with their time, trigger, number of measurements, id and version."""
    measured = Counter(series.run_ids[place] for series in found for place in series.usable())
    yield f"suite {suite}: {formatting.count(len(every), 'run')}, newest first"
    for run in every[:most]:
        figures = formatting.count(measured[run.run_id], "measurement")
        name = run_name(run.run_id, formatting.moment(run.at))
        yield f"  {name}, {figures}"
        yield f"    {run.run_id}"
        if version := str(Version.agreed(run.versions)):
            yield f"    {version}"
    if len(every) > most:
        yield f"  and {len(every) - most} earlier"


def _line(series: Series, standing: Standing, table: pa.Table) -> Iterator[str]:
    """Format a row's newest figure, its earlier level, how they differ, and its last change."""
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
        old, new = (
            row_values.text(series.key.values, level.median)
            for level in (point.before, point.after)
        )
        moved = f"since {point.since:%Y-%m-%d}, {_share(series, point.change)} from {old}"
        yield f"{'':{NAME_WIDTH}} level {new} {moved}"
        rows = table.filter(pc.equal(table["target"].cast(pa.string()), series.key.target))
        versions = {run.run_id: Version.agreed(run.versions) for run in runs_of(rows)}
        if told := since(versions[point.last_run_id], versions[point.first_run_id]):
            yield f"{'':{NAME_WIDTH}} {told}"


def _share(series: Series, moved: float) -> str:
    """Format a relative change in a series' displayed values."""
    return formatting.change(row_values.change(series.key.values, moved))
