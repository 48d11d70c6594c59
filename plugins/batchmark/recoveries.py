"""Series that are back on the level from before an alert.

Two levels are known, so a few runs tell which of them a series is on; a change to a new level
needs more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batchmark.regressions import change_point, p_value, timeline

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from batchmark.change_records import ChangePoint
    from batchmark.series_history import SeriesHistory

LEAST_RUNS = 3  # in a row, nearer to the old level


def recoveries(
    histories: Iterable[SeriesHistory], slower: Iterable[ChangePoint]
) -> Iterator[ChangePoint]:
    """The runs since which series are back.

    Args:
        histories: of times.
        slower: of alerts that are not closed.
    """
    by_key = {history.key: history for history in histories}
    for point in slower:
        history = by_key.get(point.series)
        line = timeline(history) if history else None
        if history is None or line is None or point.first_run_id not in line.run_ids:
            continue
        first = line.run_ids.index(point.first_run_id)
        middle = np.log(point.before.median * point.after.median) / 2
        slow = np.flatnonzero(line.logs[first:] > middle)
        # The alert's own first run may be a fast one, if the history placed it.
        back = first + max(int(slow[-1]) + 1 if slow.size else 1, 1)
        if line.logs.size - back >= LEAST_RUNS:
            before, after = line.logs[first:back], line.logs[back:]
            yield change_point(history, line, back, before, after, p_value(before, after))
