"""Which runs of a series count, and in which order."""

from datetime import UTC, datetime

import numpy as np
import pytest

from batchmark.changes.records import Series, moment
from tests.builders.changed_series import build_key


@pytest.mark.parametrize(
    ("run_ids", "days", "values", "counted"),
    [
        ("abc", [3, 1, 2], [1.0, 1.0, 1.0], [1, 2, 0]),
        *(("ab", [1, 2], [value, 1.0], [1]) for value in (np.nan, np.inf, 0.0, -1.0)),
        ("ab", [None, 2], [1.0, 1.0], [1]),  # nobody knows when the first one was
        # Of a run that is there twice, what was recorded later counts.
        ("aab", [3, 1, 2], [1.0, 2.0, 3.0], [2, 0]),
        ("aab", [3, 4, 2], [1.0, np.nan, 3.0], [2, 0]),
        ("aa", [1, 1], [1.0, 2.0], [1]),
        ("", [], [], []),
    ],
)
def test_runs_with_a_figure_above_zero_count_in_the_order_in_which_they_were_recorded(
    run_ids, days, values, counted
):
    at = np.array([day and f"2026-09-{day:02}" for day in days], dtype="datetime64[us]")
    history = Series(build_key(), "time", list(run_ids), at, np.array(values))
    assert history.usable().tolist() == counted


def test_a_moment_is_in_utc():
    assert moment(np.datetime64("2026-09-01T03:00:00.000007", "ns")) == datetime(
        2026, 9, 1, 3, 0, 0, 7, tzinfo=UTC
    )
