"""A detector whose answers are known beforehand, and histories for it."""

from datetime import UTC

import numpy as np

from batchmark.changes.records import ChangePoint, Level
from tests.builders.changed_series import build_history, sizes

FEWEST_RUNS = 6


class Threshold:
    """Reports a series once its `needed` newest runs are all slower than its first, by a share.

    Attributes:
        calls: what it was given.
    """

    def __init__(self, share=0.04, needed=1):
        self.share, self.needed = share, needed
        self.calls = []

    def __call__(self, histories):
        self.calls.append(list(histories))
        return [found for history in histories if (found := self._look(history))]

    def _look(self, history):
        values = history.values
        slow = values > values[0] * (1 + self.share)
        if values.size < FEWEST_RUNS or not slow[-self.needed :].all():
            return None
        first = int(np.flatnonzero(~slow)[-1]) + 1
        before, after = float(values[0]), float(values[-1])
        at = history.recorded_at[first].astype("datetime64[us]").item()
        return ChangePoint(
            series=history.key,
            metric="time",
            first_run_id=history.run_ids[first],
            first_recorded_at=at.replace(tzinfo=UTC),
            last_run_id=history.run_ids[first - 1],
            near_run_ids=(),
            before=Level(median=before, spread=None, runs=first),
            after=Level(median=after, spread=None, runs=values.size - first),
            change=after / before - 1,
            p_value=0.0,
        )


def level_histories(*targets, series=4, runs=30):
    return [
        build_history(key, [0.1] * runs)
        for target in targets
        for key in sizes(target, "matmul", series)
    ]
