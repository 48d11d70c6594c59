"""Builds timelines: logs of the figures from a series' runs and fresh jobs, in time order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from batchmark.changes.noise_model import Array
from batchmark.changes.records import Series


class Timeline(NamedTuple):
    """A series' usable figures in chronological order."""

    run_ids: list[str]  # of the n figures
    recorded_at: NDArray[np.datetime64]  # shape (n,)
    logs: Array  # shape (n,), natural logs of the figures


def timeline(series: Series, runs: int | None = None) -> Timeline:
    """Sort a series' usable runs by time: all of them, or only the newest `runs`."""
    usable = series.usable()
    chosen = usable if runs is None else usable[-runs:]
    return Timeline(
        [series.run_ids[place] for place in chosen],
        series.recorded_at[chosen],
        np.log(np.asarray(series.values, dtype=float)[chosen]),
    )


def ledger(series: Series, runs: int | None = None) -> Timeline:
    """Sort all figures by time: each usable run's own figure, then those of its fresh jobs."""
    line = timeline(series, runs)
    if not series.fresh:
        return line
    fresh = [series.fresh.get(run_id, ()) for run_id in line.run_ids]
    counts = [1 + len(figures) for figures in fresh]
    figures = [
        figure
        for own, others in zip(line.logs, fresh, strict=True)
        for figure in (own, *np.log(others))
    ]
    return Timeline(
        [run_id for run_id, count in zip(line.run_ids, counts, strict=True) for _ in range(count)],
        np.repeat(line.recorded_at, counts),
        np.array(figures),
    )
