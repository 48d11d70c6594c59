"""Sets the evidence a change needs so that noise alone causes no more alerts than configured.

The more series are judged per month, the more evidence each change needs. `python -m
benchmarks.detector.false_alerts` simulates noise of several kinds; RATE and DECAY are fitted to its
output.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from batchmark.changes.evidence import EVIDENCE
from batchmark.changes.metric import Metric
from batchmark.changes.records import Series

RATE = 0.0006  # false alerts of a series in a run, if its changes need EVIDENCE ...
DECAY = 0.67  # ... and by how much the log of this falls with each further nat of evidence
MONTH = np.timedelta64(30, "D")


def evidence_needed(histories: Sequence[Series], false_alerts_a_month: float) -> float:
    """Return the log likelihood ratio that a change needs in these series, all of one metric."""
    return evidence_of(runs_a_month(histories), false_alerts_a_month)


def evidence_of(figures: float, false_alerts_a_month: float) -> float:
    """Return the evidence needed at this many figures a month; metrics share the limit equally."""
    too_many = RATE * max(figures, 1) * len(Metric) / false_alerts_a_month
    return EVIDENCE + max(0.0, math.log(too_many) / DECAY)


def runs_a_month(histories: Iterable[Series]) -> int:
    """Count the figures in the busiest month, so that a pause doesn't lower the evidence needed."""
    moments = [one.recorded_at[one.usable()] for one in histories]
    every = np.sort(np.concatenate([*moments, np.array([], dtype="datetime64[us]")]))
    before = np.searchsorted(every, every - MONTH, "right")
    return int(np.max(np.arange(1, every.size + 1) - before, initial=0))
