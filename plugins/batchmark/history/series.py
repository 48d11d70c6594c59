"""Builds series, with one figure per run, from the history's rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from json import loads
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from batchmark.changes.metric import Metric
from batchmark.changes.records import Series, SeriesKey
from batchmark.core.names import target_order
from batchmark.core.row_values import ToldMetric
from batchmark.core.run import CONFIRMATION
from batchmark.core.version import NAMES, matches
from batchmark.history.columns import TIMESTAMP
from batchmark_job.result.document import Device
from batchmark_job.result.own_job import METRIC

MACHINE = ("suite", "target", "actual_device", "instance_type", "cpu_model", "gpu_model")
POINT = ("workload", "parameters", "dtype")
FIGURES: dict[Metric, str] = {
    Metric.TIME: "median_seconds",
    Metric.NOISE: "relative_spread",
    Metric.PRICE: "price_usd_per_hour",
}
# The columns to read from the history, which adds the suite to every table.
COLUMNS = (
    *MACHINE[1:],
    *POINT,
    "requested_device",
    "run_id",
    "recorded_at",
    "process_seconds",
    "status",
    "purpose",
    "purchase_option",
    *FIGURES.values(),
)
VERSION = tuple(NAMES)  # columns that say what was measured
LONGEST_SECONDS = 1e9  # of a job; what a damaged file claims beyond would overflow a time
MOST_CODES = 2**62  # as many as an int64 can number, with room to spare


class _Group(NamedTuple):
    """Rows with equal values in some columns, summarised as one figure per run."""

    names: dict[str, Any]  # the equal values by column
    runs: NDArray[np.int32]  # indices of the runs, ascending; shape (n,)
    recorded_at: NDArray[np.datetime64]  # time of each run's last row, in UTC; shape (n,)
    figures: NDArray[np.float64]  # median over each run's rows; shape (n,)
    rows: NDArray[np.int64]  # number of rows of each run; shape (n,)


def series_histories(table: pa.Table, metric: Metric) -> list[Series]:
    """Return all series for a metric, with one figure per run: the median over its jobs.

    Only measured rows count. Confirmations don't, because they would give a suspicious run more
    jobs than others; their times are in `Series.fresh`. A price series has a single purchase
    option: the most common one in its newest run. The table must have COLUMNS.
    """
    if metric == Metric.SPEEDUP:
        return speedups(table)
    if metric == Metric.PRICE:
        groups = _prices(table)
    else:
        groups = list(_groups(table, (*MACHINE, *POINT), FIGURES[metric], is_counted(table)))
    _, run_ids = dictionary_codes(table["run_id"])
    fell_back = _fell_back(table)
    fresh = _fresh_figures(table) if metric == Metric.TIME else {}
    began = runs_began(table)
    return [
        Series(
            SeriesKey(**group.names),
            metric,
            run_ids[group.runs].tolist(),
            group.recorded_at,
            group.figures,
            (group.names["target"], group.names["actual_device"]) in fell_back,
            fresh.get(tuple(group.names.values()), {}),
            began,
        )
        for group in groups
    ]


def speedups(table: pa.Table) -> list[Series]:
    """Return a series of CPU time / GPU time for each row and each pair of GPU and CPU targets.

    Rows that fell back from GPU to CPU are excluded, and so are metrics of users' own jobs, which
    aren't times. The table must have COLUMNS.
    """
    counted = is_counted(table) & ~is_metric(table)
    on_cpu, on_gpu = (
        counted & _is(table, "requested_device", device) & _is(table, "actual_device", device)
        for device in (Device.CPU, Device.CUDA)
    )
    by_point = defaultdict(list)
    for cpu in _groups(table, ("suite", *POINT, "target"), FIGURES[Metric.TIME], on_cpu):
        by_point[_point(cpu)].append(cpu)
    _, run_ids = dictionary_codes(table["run_id"])
    began = runs_began(table)
    histories = []
    for gpu in _groups(table, (*MACHINE, *POINT), FIGURES[Metric.TIME], on_gpu):
        for cpu in by_point[_point(gpu)]:
            runs, of_gpu, of_cpu = np.intersect1d(
                gpu.runs, cpu.runs, assume_unique=True, return_indices=True
            )
            if not runs.size:
                continue
            histories.append(
                Series(
                    SeriesKey(**gpu.names, against=cpu.names["target"]),
                    Metric.SPEEDUP,
                    run_ids[runs].tolist(),
                    gpu.recorded_at[of_gpu],
                    cpu.figures[of_cpu] / gpu.figures[of_gpu],
                    began=began,
                )
            )
    return histories


class HistoryRun(NamedTuple):
    run_id: str
    suite: str
    at: datetime  # when its first job began
    targets: tuple[str, ...]
    versions: Mapping[str, Sequence[str]]  # all values that its rows have, by VERSION's name


def of_version(table: pa.Table, name: str, wanted: str) -> pa.Table:
    """Select the rows whose version column `name` matches the wanted value."""
    column = table[name].cast(pa.string())
    fitting = [one for one in column.unique().to_pylist() if one and matches(name, wanted, one)]
    return table.filter(pc.is_in(column, pa.array(fitting, pa.string())))


def runs_of(table: pa.Table) -> list[HistoryRun]:
    """Return all runs, newest first; the table must have the columns in COLUMNS and VERSION."""
    found = [
        HistoryRun(
            row["run_id"],
            row["suite"],
            at,
            tuple(sorted(row["target_distinct"], key=target_order)),
            {name: sorted(filter(None, row[f"{name}_distinct"])) for name in VERSION},
        )
        for row, at in _begun(table, ("run_id", "suite"), ("target", *VERSION))
    ]
    return sorted(found, key=lambda run: run.at, reverse=True)


def runs_began(table: pa.Table) -> dict[str, datetime]:
    """Return when each run's first job began, in UTC, by run id; fresh jobs don't count."""
    return {row["run_id"]: at for row, at in _begun(table, ("run_id",))}


def _begun(
    table: pa.Table, by: Sequence[str], distinct: Sequence[str] = ()
) -> Iterator[tuple[dict[str, Any], datetime]]:
    """Yield each group of scheduled jobs, with its `distinct` values, and when its first began."""
    scheduled = table.filter(pa.array(~_is(table, "purpose", CONFIRMATION)))
    flat = pa.table(
        {name: scheduled[name].cast(pa.string()) for name in (*by, *distinct)}
        | {"began_at": began_at(scheduled)}
    )
    values = [("began_at", "min"), *((name, "distinct") for name in distinct)]
    for row in flat.group_by(list(by)).aggregate(values).to_pylist():
        if began := row["began_at_min"]:
            yield row, began.replace(tzinfo=UTC)


def began_at(table: pa.Table) -> pa.Array:
    """Return when each row's job began, in UTC; of an imported row, when it was measured."""
    seconds = np.nan_to_num(table["process_seconds"].to_numpy()).clip(0, LONGEST_SECONDS)
    took = np.round(seconds * 1e6).astype("timedelta64[us]")
    return pa.array(table["recorded_at"].to_numpy() - took, TIMESTAMP)


def _fresh_figures(table: pa.Table) -> dict[tuple[Any, ...], dict[str, list[float]]]:
    """Return the confirmations' figures, oldest first, by `_Group.names` values and by run."""
    measured = _is(table, "status", "measured") & _is(table, "purpose", CONFIRMATION)
    names, seconds = (*MACHINE, *POINT), FIGURES[Metric.TIME]
    found: dict[tuple[Any, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    rows = table.filter(pa.array(measured)).select([*names, "run_id", "recorded_at", seconds])
    for row in rows.sort_by("recorded_at").to_pylist():
        if row[seconds]:
            found[tuple(row[name] for name in names)][row["run_id"]].append(row[seconds])
    return found


def _point(group: _Group) -> tuple[Any, ...]:
    return tuple(group.names[name] for name in ("suite", *POINT))


def _fell_back(table: pa.Table) -> set[tuple[str, str]]:
    """Return each GPU target that had jobs on the CPU, with its actual device (the CPU)."""
    rows = _is(table, "requested_device", Device.CUDA) & _is(table, "actual_device", Device.CPU)
    targets = table["target"].filter(pa.array(rows)).unique().to_pylist()
    return {(target, Device.CPU.value) for target in targets}


def _prices(table: pa.Table) -> list[_Group]:
    """Return each machine's prices for the most common purchase option in its newest run."""
    # An unknown purchase option is charged as On-Demand.
    bought = pc.fill_null(table["purchase_option"].cast(pa.string()), "on_demand")
    place = table.column_names.index("purchase_option")
    table = table.set_column(place, "purchase_option", bought)
    machines = defaultdict(list)
    for group in _groups(
        table, (*MACHINE, "purchase_option"), FIGURES[Metric.PRICE], is_counted(table)
    ):
        del group.names["purchase_option"]
        machines[tuple(group.names.values())].append(group)
    return [max(groups, key=_rows_of_newest_run(groups)) for groups in machines.values()]


def _rows_of_newest_run(groups: Sequence[_Group]) -> Callable[[_Group], int]:
    newest = max(groups, key=lambda group: group.recorded_at.max())
    run = newest.runs[newest.recorded_at.argmax()]
    return lambda group: int(group.rows[group.runs == run].sum())


def _groups(
    table: pa.Table, names: Sequence[str], figure: str, mask: NDArray[np.bool_]
) -> Iterator[_Group]:
    """Group rows by the columns `names` and summarise them by run, skipping rows without a figure.

    The mask selects the rows to group; its shape is (table.num_rows,).
    """
    figures = table[figure].to_numpy()
    recorded_at = table["recorded_at"].to_numpy()
    chosen = np.flatnonzero(mask & ~np.isnan(figures) & ~np.isnat(recorded_at))
    codes = _combined_codes(table, names, chosen)
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    run = dictionary_codes(table["run_id"])[0][chosen]
    order = np.lexsort((figures[chosen], run, group))
    group, run, rows = group[order], run[order], chosen[order]
    # The first row of each group and run: the one with the smallest figure.
    starts = np.flatnonzero(np.diff(group, prepend=-1) | np.diff(run, prepend=-1))
    counts = np.diff(starts, append=rows.size)
    lower, upper = rows[starts + (counts - 1) // 2], rows[starts + counts // 2]
    medians = (figures[lower] + figures[upper]) / 2
    last = np.maximum.reduceat(recorded_at[rows], starts) if rows.size else recorded_at[:0]
    runs = run[starts]
    edges = np.searchsorted(group[starts], np.arange(first.size + 1))
    distinct = table.select(names).take(pa.array(chosen[first])).to_pylist()
    for values, start, end in zip(distinct, edges, edges[1:], strict=False):
        yield _Group(
            names=values,
            runs=runs[start:end],
            recorded_at=last[start:end],
            figures=medians[start:end],
            rows=counts[start:end],
        )


def _combined_codes(
    table: pa.Table, names: Sequence[str], chosen: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return a code for each chosen row; rows that are equal in the columns `names` share one."""
    combined = np.zeros(chosen.size, np.int64)
    size = 1
    for name in names:
        codes, strings = dictionary_codes(table[name])
        if size * strings.size > MOST_CODES:
            used, combined = np.unique(combined, return_inverse=True)
            size = used.size
        combined = combined * strings.size + codes[chosen]
        size *= strings.size
    return combined


def is_counted(table: pa.Table) -> NDArray[np.bool_]:
    """Return a mask of the rows that count towards a run's figures; shape (table.num_rows,)."""
    return _is(table, "status", "measured") & ~_is(table, "purpose", CONFIRMATION)


def _is(table: pa.Table, column: str, text: str) -> NDArray[np.bool_]:
    codes, strings = dictionary_codes(table[column])
    return np.isin(codes, np.flatnonzero(strings == text))


def is_metric(table: pa.Table) -> NDArray[np.bool_]:
    """Return a mask of the rows with metrics of users' own jobs; shape (table.num_rows,)."""
    codes, texts = dictionary_codes(table["parameters"])
    told = [
        text is not None and METRIC in text and bool(ToldMetric.of(loads(text))) for text in texts
    ]
    return np.isin(codes, np.flatnonzero(told))


def dictionary_codes(column: pa.ChunkedArray) -> tuple[NDArray[np.int32], NDArray[np.object_]]:
    """Return each row's index into the distinct strings, and those strings, starting with None."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    array = column.unify_dictionaries().combine_chunks()
    indices = pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False)
    strings = np.array([None, *array.dictionary.to_pylist()], dtype=object)
    return indices + 1, strings
