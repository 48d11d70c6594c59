"""A series over its runs, as the detector takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from batchmark.change_records import Metric, SeriesKey


@dataclass(frozen=True)
class SeriesHistory:
    """One figure a run, in any order; a run without a figure may be left out or be NaN.

    Attributes:
        run_ids: of the n runs; of those that stand here twice, the later one counts.
        recorded_at: shape (n,), datetime64[us] in UTC; the order of the runs.
        values: shape (n,), in the unit of `Level.median`.
    """

    key: SeriesKey
    metric: Metric
    run_ids: Sequence[str]
    recorded_at: NDArray[np.datetime64]
    values: NDArray[np.float64]
