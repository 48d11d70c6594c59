"""How much evidence changes need, and which runs count for it."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from batchmark.changes.evidence import EVIDENCE, LEAST_POWER, _power
from batchmark.changes.false_alerts import DECAY, RATE, evidence_needed, evidence_of, runs_a_month
from batchmark.changes.metric import Metric
from batchmark.changes.records import Series, moment
from tests.builders.changed_series import build_history, build_key, noisy


def log_ratios(logs, shift):
    """Of standard normal noise with this shift and without."""
    return shift * logs - shift**2 / 2


def test_evidence_counts_less_the_more_the_window_has_of_it_itself():
    """With noise n times as wide, the ratios' averages are exp(e (n² e - 1) / 2) at the power e."""
    noise = np.random.default_rng(1).standard_normal(100_000)

    assert _power(log_ratios(noise, 1.0)) == pytest.approx(1, abs=0.02)
    assert _power(log_ratios(2 * noise, 1.0)) == pytest.approx(1 / 4, abs=0.01)
    assert _power(np.full(20, 0.1)) == LEAST_POWER


def test_a_months_figures_are_those_of_the_busiest_thirty_days():
    daily, short = build_history(build_key(), noisy(50)), build_history(build_key(), noisy(20))
    paused = replace(daily, recorded_at=daily.recorded_at.copy())
    paused.recorded_at[-1] += np.timedelta64(100, "D")

    assert runs_a_month([daily]) == runs_a_month([paused]) == 30
    assert runs_a_month([daily, short]) == 50
    assert runs_a_month([short]) == 20
    assert runs_a_month([build_history(build_key(), [np.nan]), build_history(build_key(), [])]) == 0


def test_few_series_need_the_least_evidence_and_many_need_more():
    promised = len(Metric) * RATE  # a metric's share is what one figure a month alerts

    assert evidence_of(0, promised) == evidence_of(1, promised) == EVIDENCE
    assert evidence_of(100, promised) == pytest.approx(EVIDENCE + np.log(100) / DECAY)
    assert evidence_of(100, 100 * promised) == EVIDENCE
    assert evidence_of(100, 1000 * promised) == EVIDENCE

    many = [build_history(build_key(parameters=f'{{"n":{n}}}'), noisy(40)) for n in range(3)]
    assert evidence_needed(many, 0.01) == evidence_of(90, 0.01)  # judged together


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
