"""Which runs of a series count, and in which order."""

from datetime import UTC, datetime

import numpy as np
import pytest

from batchmark.changes.records import Series, moment
from tests.builders.changed_series import build_key


def usable(run_ids, days, values):
    at = np.array([day and f"2026-09-{day:02}" for day in days], dtype="datetime64[us]")
    history = Series(build_key(), "time", run_ids, at, np.array(values))
    return history.usable().tolist()


def test_runs_stand_in_the_order_in_which_they_were_recorded():
    assert usable(["a", "b", "c"], [3, 1, 2], [1.0, 1.0, 1.0]) == [1, 2, 0]


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, -1.0])
def test_a_run_without_a_figure_above_zero_does_not_count(value):
    assert usable(["a", "b"], [1, 2], [value, 1.0]) == [1]


def test_a_run_of_which_nobody_knows_when_it_was_does_not_count():
    assert usable(["a", "b"], [None, 2], [1.0, 1.0]) == [1]


def test_of_a_run_that_is_there_twice_what_was_recorded_later_counts():
    assert usable(["a", "a", "b"], [3, 1, 2], [1.0, 2.0, 3.0]) == [2, 0]
    assert usable(["a", "a", "b"], [3, 4, 2], [1.0, np.nan, 3.0]) == [2, 0]
    assert usable(["a", "a"], [1, 1], [1.0, 2.0]) == [1]


def test_an_empty_history_has_none():
    assert usable([], [], []) == []


def test_a_moment_is_in_utc():
    assert moment(np.datetime64("2026-09-01T03:00:00.000007", "ns")) == datetime(
        2026, 9, 1, 3, 0, 0, 7, tzinfo=UTC
    )
