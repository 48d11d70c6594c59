"""How much evidence a change needs, so that noise alone alerts no more often than was asked for.

The more series are judged a month, the more evidence each of their changes needs.
`python -m benchmarks.detector.false_alerts` simulates noise of several kinds: RATE and DECAY are
fitted to what it prints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from batchmark.changes.evidence import EVIDENCE
from batchmark.changes.records import METRICS, Series

RATE = 0.0006  # false alerts of a series in a run, if its changes need EVIDENCE ...
DECAY = 0.67  # ... and by how much the log of this falls with each further nat of evidence
MONTH = np.timedelta64(30, "D")


def evidence_needed(histories: Sequence[Series], false_alerts_a_month: float) -> float:
    """The log likelihood ratio that a change needs in these series, all of one metric."""
    return evidence_of(runs_a_month(histories), false_alerts_a_month)


def evidence_of(figures: float, false_alerts_a_month: float) -> float:
    """The same for so many figures a month; each metric has an equal share of the false alerts."""
    too_many = RATE * max(figures, 1) * len(METRICS) / false_alerts_a_month
    return EVIDENCE + max(0.0, math.log(too_many) / DECAY)


def runs_a_month(histories: Iterable[Series]) -> int:
    """How many figures series had in the month up to the newest one of all."""
    moments = [one.recorded_at[one.usable()] for one in histories]
    newest = max((times[-1] for times in moments if times.size), default=None)
    if newest is None:
        return 0
    return sum(int(np.count_nonzero(times > newest - MONTH)) for times in moments)
