"""A series over its runs, as the detector takes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from batchmark.change_records import Metric, SeriesKey


@dataclass(frozen=True)
class SeriesHistory:
    """One figure a run, in any order; a run without a figure may be left out or be NaN.

    Attributes:
        run_ids: of the n runs; of one that stands here twice, what was recorded later counts.
        recorded_at: shape (n,), datetime64[us] in UTC; the order of the runs.
        values: shape (n,), in the unit of `Level.median`.
    """

    key: SeriesKey
    metric: Metric
    run_ids: Sequence[str]
    recorded_at: NDArray[np.datetime64]
    values: NDArray[np.float64]

    def usable(self) -> NDArray[np.int64]:
        """Indexes of the runs that count, by the time they were recorded: with a figure above 0."""
        values = np.asarray(self.values, dtype=float)
        known = np.isfinite(values) & (values > 0) & ~np.isnat(self.recorded_at)
        places = np.flatnonzero(known)
        order = places[np.argsort(self.recorded_at[places], kind="stable")].tolist()
        last = {self.run_ids[place]: place for place in order}
        return np.array(
            [place for place in order if last[self.run_ids[place]] == place], dtype=np.int64
        )


def moment(recorded_at: np.datetime64) -> datetime:
    """As Python has it, in UTC."""
    found: datetime = recorded_at.astype("datetime64[us]").item()
    return found.replace(tzinfo=UTC)
