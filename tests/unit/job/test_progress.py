"""What a job's log says of the time that is left."""

from types import SimpleNamespace

import pytest

from batchmark_job.measuring.limits import RowLimits
from batchmark_job.progress import time_left

LIMITS = RowLimits(processes=2, turns=5)


def row(turns, *, measured=False):
    return SimpleNamespace(measurement=measured or None, turns=[()] * turns, limits=LIMITS)


@pytest.mark.parametrize(
    ("rows", "seconds", "left"),
    [
        ([row(5), row(5)], 30, "; about 30 s left"),
        ([row(1, measured=True), row(0)], 30, "; about 30 s left"),  # precise after one turn
        ([row(2), row(0)], 60, "; about 9 min left"),
        ([row(0), row(0)], 30, ""),
        ([row(1), *[row(0)] * 9], 30, ""),  # a hundredth of all turns: a guess
        ([row(10, measured=True)] * 2, 30, ""),
    ],
)
def test_time_left_goes_by_the_turns_taken(rows, seconds, left):
    assert time_left(rows, seconds) == left
