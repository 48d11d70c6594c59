"""Windows, steps and gaps of schedules whose answers are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchmark_job.sharing.schedule import Steps, Window, seconds_per_step, split

WINDOW = Window(10.0, 20.0)


def regular(seconds, began=9.0, until=21.0):
    return Steps(began, list(np.arange(began + seconds, until + seconds, seconds)))


def test_steps_count_by_their_share_of_a_window():
    steps = Steps(9.0, [11.0, 13.0, 21.0])
    assert steps.within(WINDOW) == pytest.approx(0.5 + 1 + 7 / 8)
    assert steps.whole_within(WINDOW) == 2
    assert steps.seconds_within(WINDOW).tolist() == [2.0, 2.0]
    steps = Steps(0.0, [1.0, 2.0])
    assert steps.within(WINDOW) == 0
    assert seconds_per_step([steps], WINDOW) is None
    assert steps.longest_gap(WINDOW) == 10.0


def test_two_that_take_turns_make_as_many_steps_as_one_alone_and_else_twice_as_many():
    assert seconds_per_step([regular(0.5)], WINDOW) == pytest.approx(0.5)
    assert seconds_per_step([regular(1.0), regular(1.0, 9.5)], WINDOW) == pytest.approx(0.5)
    assert seconds_per_step([regular(0.5)] * 2, WINDOW) == pytest.approx(0.25)


def test_the_longest_gap_reaches_to_the_windows_edges():
    for ends, longest in (([10.5, 11, 15, 16], 4), ([10.5, 13, 14], 6), ([18, 21], 8)):
        assert Steps(9.0, ends).longest_gap(WINDOW) == longest


@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=40), st.integers(1, 9))
def test_windows_side_by_side_hold_the_steps_of_all_of_them(durations, count):
    steps = Steps(0.0, list(np.cumsum(durations)))
    whole = Window(0.0, steps.ends[-1])
    parts = [steps.within(window) for window in split(whole, count)]
    assert sum(parts) == pytest.approx(len(durations))
    assert steps.whole_within(whole) == len(durations)
