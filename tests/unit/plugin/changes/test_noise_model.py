"""What a window of runs says of its noise and of later runs, and which runs count."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from scipy import stats

from batchmark.changes.evidence import EVIDENCE, LEAST_POWER, _power
from batchmark.changes.false_alerts import DECAY, RATE, evidence_needed, evidence_of, runs_a_month
from batchmark.changes.metric import Metric
from batchmark.changes.noise_model import EXPECTED_LOG_SD, LEAST_LOG_SD, NoiseDensity, Prior
from batchmark.changes.records import Series, moment
from tests.builders.changed_series import build_history, build_key, noisy


def density(*windows, prior=None):
    known = prior or Prior()
    width = max(map(len, windows))
    padded = np.full((len(windows), width), np.nan)
    for row, window in zip(padded, windows, strict=True):
        row[: len(window)] = window
    return NoiseDensity.of(
        padded, np.full(len(windows), known.log_sd), np.full(len(windows), known.runs)
    )


def normal(count, log_sd=0.02, seed=0):
    return log_sd * np.random.default_rng(seed).standard_normal(count)


def evidence(noise, *logs):
    """Log likelihood ratio of a shift, that of the logs' median."""
    later = (np.array(logs) - noise.center[0])[None, :]
    return float(np.sum(noise.log_density(later - np.median(later)) - noise.log_density(later)))


def tail(noise, log_value):
    return float(noise.tail(np.array([log_value]) - noise.center)[0])


@pytest.mark.parametrize("log_sd", [0.01, 0.03, 0.1])
def test_many_runs_show_their_own_level_and_noise(log_sd):
    noise = density(3 + normal(60, log_sd))
    assert noise.runs.tolist() == [60]
    assert noise.center[0] + noise.mean[0] == pytest.approx(3, abs=log_sd / 2)
    assert noise.log_sd[0] == pytest.approx(log_sd, rel=0.35)


def test_a_single_run_scatters_as_others_do_and_equal_runs_prove_little_noise():
    assert density([1.0]).log_sd[0] == pytest.approx(EXPECTED_LOG_SD)
    assert density([1.0], prior=Prior(0.07, 5)).log_sd[0] == pytest.approx(0.07)
    assert LEAST_LOG_SD <= density([1.0] * 60).log_sd[0] < EXPECTED_LOG_SD / 2
    noise = density([1.0] * 60, prior=Prior(0.0, 1))
    assert (noise.log_sd[0], noise.scale[0]) == (LEAST_LOG_SD, LEAST_LOG_SD) == (0.004, 0.004)


@pytest.mark.parametrize("wild", [0.5, 20.0])
def test_an_outlier_counts_as_three_scales_off(wild):
    runs = np.r_[np.tile([-0.02, -0.01, 0.0, 0.01, 0.02], 8), wild]
    noise = density(runs, prior=Prior(0.02, 2))
    scale = ((2 * 0.02**2 + 41 * (1.4826 * 0.01) ** 2) / 43) ** 0.5
    clipped = np.r_[runs[:-1], 3 * scale]
    mean = clipped.mean()
    variance = (2 * 0.02**2 + ((clipped - mean) ** 2).sum()) / 42
    assert noise.mean[0] == pytest.approx(mean)
    assert noise.log_sd[0] == pytest.approx(variance**0.5)


def test_windows_of_unlike_lengths_know_nothing_of_each_other():
    windows = [normal(60), normal(9, 0.05, seed=1), normal(30, 0.01, seed=2)]
    together = density(*windows)
    for row, window in enumerate(windows):
        alone = density(window)
        assert together.log_sd[row] == pytest.approx(alone.log_sd[0])
        later = np.full((1, 3), 0.07)
        assert together.log_density(later, rows=np.array([row])) == pytest.approx(
            alone.log_density(later)
        )


def test_a_tail_falls_with_the_value_and_is_near_the_normal_ones():
    noise = density(normal(60))
    tails = [tail(noise, value) for value in np.linspace(-0.2, 0.4, 40)]
    assert np.all(np.diff(tails) <= 1e-12)
    assert tails[0] == pytest.approx(1, abs=0.02)
    assert tail(noise, 0.04) == pytest.approx(stats.norm.sf(2), abs=0.05)
    assert tail(noise, 50.0) > 0  # nothing is impossible


def test_evidence_grows_with_the_runs_that_agree_their_distance_and_the_window():
    noise = density(normal(60))
    assert evidence(noise, 0.1) < evidence(noise, 0.1, 0.1) < evidence(noise, 0.1, 0.1, 0.1)
    assert evidence(noise, *[0.04] * 4) < evidence(noise, *[0.08] * 4)
    long, short = normal(60), normal(60)[:9]
    assert evidence(density(short), *[0.1] * 6) < evidence(density(long), *[0.1] * 6)


def test_runs_within_the_noise_and_one_wild_run_are_no_evidence():
    assert evidence(density(normal(60)), *normal(8, seed=9)) < 2
    noise = density(normal(60))
    assert evidence(noise, 20.0, 0.0, 0.0, 0.0, 0.0) < 2


def test_a_value_that_the_window_has_seen_is_no_news():
    two_speeds = np.where(np.arange(40) % 3 == 0, 0.08, 0.0) + normal(40, 0.01)
    assert evidence(density(two_speeds), 0.08, 0.08) < evidence(
        density(normal(40, 0.01)), 0.08, 0.08
    )
    assert tail(density(two_speeds), 0.08) > 0.1


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
