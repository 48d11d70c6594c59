"""Series over their runs, made of the history's rows."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchmark.change_records import Metric, SeriesKey
from batchmark.run import CONFIRMATION
from batchmark.series_history import SeriesHistory
from batchmark_job.result import Device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

MACHINE = ("suite", "target", "actual_device", "instance_type", "cpu_model", "gpu_model")
POINT = ("workload", "parameters", "dtype")
FIGURES: dict[Metric, str] = {
    "time": "median_seconds",
    "noise": "relative_spread",
    "price": "price_usd_per_hour",
}
# What is read here of the history; the suite comes with every table.
COLUMNS = (
    *MACHINE[1:],
    *POINT,
    "requested_device",
    "run_id",
    "recorded_at",
    "status",
    "purpose",
    "purchase_option",
    *FIGURES.values(),
)
MOST_CODES = 2**62  # of 64 bits with a sign


class _Group(NamedTuple):
    """Rows that are alike in some columns, as one figure a run.

    Attributes:
        names: what they have in these columns.
        runs: shape (n,), indexes of the runs, ascending.
        recorded_at: shape (n,), of each run's last row.
        figures: shape (n,), medians over each run's rows.
        rows: shape (n,), how many these are.
    """

    names: dict[str, Any]
    runs: NDArray[np.int32]
    recorded_at: NDArray[np.datetime64]
    figures: NDArray[np.float64]
    rows: NDArray[np.int64]


def series_histories(table: pa.Table, metric: Metric) -> list[SeriesHistory]:
    """Every series in the history, one figure a run: the median over the run's jobs.

    Only measured rows count, and none of a confirmation: a run that looked odd would have more
    jobs than others. A price series keeps to one way of buying: that of most rows of its newest
    run.

    Args:
        table: with COLUMNS.
    """
    if metric == "speedup":
        return speedups(table)
    if metric == "price":
        groups = _prices(table)
    else:
        groups = list(_groups(table, (*MACHINE, *POINT), FIGURES[metric], counted(table)))
    _, run_ids = encoded(table["run_id"])
    return [
        SeriesHistory(
            SeriesKey(**group.names),
            metric,
            run_ids[group.runs].tolist(),
            group.recorded_at,
            group.figures,
        )
        for group in groups
    ]


def speedups(table: pa.Table) -> list[SeriesHistory]:
    """CPU time over GPU time: each GPU target's series against each CPU target, run by run.

    What was to run on a GPU and ran on the CPU is on neither side.

    Args:
        table: with COLUMNS.
    """
    which = counted(table)
    on_cpu, on_gpu = (
        which & _is(table, "requested_device", device) & _is(table, "actual_device", device)
        for device in (Device.CPU, Device.CUDA)
    )
    by_point = defaultdict(list)
    for cpu in _groups(table, ("suite", *POINT, "target"), FIGURES["time"], on_cpu):
        by_point[_point(cpu)].append(cpu)
    _, run_ids = encoded(table["run_id"])
    found = []
    for gpu in _groups(table, (*MACHINE, *POINT), FIGURES["time"], on_gpu):
        for cpu in by_point[_point(gpu)]:
            runs, ours, theirs = np.intersect1d(
                gpu.runs, cpu.runs, assume_unique=True, return_indices=True
            )
            if runs.size:
                key = SeriesKey(**gpu.names, against=cpu.names["target"])
                values = cpu.figures[theirs] / gpu.figures[ours]
                when = gpu.recorded_at[ours]
                found.append(SeriesHistory(key, "speedup", run_ids[runs].tolist(), when, values))
    return found


def _point(group: _Group) -> tuple[Any, ...]:
    return tuple(group.names[name] for name in ("suite", *POINT))


def _prices(table: pa.Table) -> list[_Group]:
    """Of each machine, bought as most of its newest run was."""
    # Bought in a way that nobody knows is charged as On-Demand.
    bought = pc.fill_null(table["purchase_option"].cast(pa.string()), "on_demand")
    place = table.column_names.index("purchase_option")
    table = table.set_column(place, "purchase_option", bought)
    machines = defaultdict(list)
    for group in _groups(table, (*MACHINE, "purchase_option"), FIGURES["price"], counted(table)):
        del group.names["purchase_option"]
        machines[tuple(group.names.values())].append(group)
    return [max(groups, key=_rows_of_newest_run(groups)) for groups in machines.values()]


def _rows_of_newest_run(groups: Sequence[_Group]) -> Callable[[_Group], int]:
    newest = max(groups, key=lambda group: group.recorded_at.max())
    run = newest.runs[newest.recorded_at.argmax()]
    return lambda group: int(group.rows[group.runs == run].sum())


def _groups(
    table: pa.Table, names: Sequence[str], figure: str, which: NDArray[np.bool_]
) -> Iterator[_Group]:
    """The rows chosen that have a figure, by what they have in some columns and by run."""
    figures = table[figure].to_numpy()
    recorded_at = table["recorded_at"].to_numpy()
    chosen = np.flatnonzero(which & ~np.isnan(figures) & ~np.isnat(recorded_at))
    combined = np.zeros(chosen.size, np.int64)
    size = 1
    for name in names:
        codes, texts = encoded(table[name])
        if size * texts.size > MOST_CODES:
            distinct, combined = np.unique(combined, return_inverse=True)
            size = distinct.size
        combined = combined * texts.size + codes[chosen]
        size *= texts.size
    _, first, group = np.unique(combined, return_index=True, return_inverse=True)
    run = encoded(table["run_id"])[0][chosen]
    order = np.lexsort((figures[chosen], run, group))
    group, run, rows = group[order], run[order], chosen[order]
    # Where a run's rows of a group begin, the smallest figure first.
    starts = np.flatnonzero(np.diff(group, prepend=-1) | np.diff(run, prepend=-1))
    counts = np.diff(starts, append=rows.size)
    middles = rows[starts + (counts - 1) // 2], rows[starts + counts // 2]
    medians = (figures[middles[0]] + figures[middles[1]]) / 2
    last = np.maximum.reduceat(recorded_at[rows], starts) if rows.size else recorded_at[:0]
    runs = run[starts]
    edges = np.searchsorted(group[starts], np.arange(first.size + 1))
    alike = table.select(names).take(pa.array(chosen[first])).to_pylist()
    for own, start, end in zip(alike, edges, edges[1:], strict=False):
        yield _Group(
            names=own,
            runs=runs[start:end],
            recorded_at=last[start:end],
            figures=medians[start:end],
            rows=counts[start:end],
        )


def counted(table: pa.Table) -> NDArray[np.bool_]:
    """Which rows make a run's figures."""
    return _is(table, "status", "measured") & ~_is(table, "purpose", CONFIRMATION)


def _is(table: pa.Table, column: str, text: str) -> NDArray[np.bool_]:
    codes, texts = encoded(table[column])
    return np.isin(codes, np.flatnonzero(texts == text))


def encoded(column: pa.ChunkedArray) -> tuple[NDArray[np.int32], NDArray[np.object_]]:
    """For each row the index of its text among all texts, of which the first is None."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    array = column.unify_dictionaries().combine_chunks()
    indices = pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False)
    texts = np.array([None, *array.dictionary.to_pylist()], dtype=object)
    return indices + 1, texts
