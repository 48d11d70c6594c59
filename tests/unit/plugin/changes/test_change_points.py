"""Where and when the search through a series finds that its level has changed."""

import numpy as np
import pytest

from batchmark.changes.change_points import AT_A_TIME, search
from batchmark.changes.evidence import LEAST_AFTER, LEAST_BEFORE
from batchmark.changes.noise_model import WINDOW, windows_before
from batchmark.changes.steps import Step, drift_of
from tests.builders.noise import quick_and_long


def noise(count, seed=0, log_sd=0.01):
    return log_sd * np.random.default_rng(seed).standard_normal(count)


def steps(*levels, runs=20, seed=0, log_sd=0.01):
    return np.repeat(levels, runs) + noise(len(levels) * runs, seed, log_sd)


def indexes(logs):
    return [found.index for found in search([logs])[0]]


@pytest.mark.parametrize("shift", [0.1, -0.1, 2.0, 20.0])
def test_a_clear_step_is_found_where_it_is_as_soon_as_the_runs_suffice(shift):
    for (found,) in search([steps(0, shift, seed=seed) for seed in range(5)]):
        assert (found.index, found.shown_after) == (20, 20 + LEAST_AFTER)


def test_every_level_of_a_staircase_is_found_whatever_the_level_of_the_logs():
    assert indexes(steps(0, 0.1, 0.2, 0.05)) == [20, 40, 60]
    logs = steps(0, 0.1)
    assert indexes(logs) == indexes(logs - 30) == indexes(logs + 600)


def test_a_step_shows_once_it_has_the_runs_it_needs_on_both_sides():
    before, after = noise(LEAST_BEFORE), 0.3 + noise(LEAST_AFTER, seed=1)
    assert indexes(np.r_[before, after]) == [LEAST_BEFORE]
    assert indexes(np.r_[before, after[1:]]) == []
    assert indexes(np.r_[before[1:], after]) == []


@pytest.mark.parametrize("log_sd", [0.01, 0.03, 0.05])
@quick_and_long("count", [20], [1000])
def test_noise_alone_has_hardly_a_change(log_sd, count):
    found = search([noise(200, 100 + seed, log_sd) for seed in range(count)])
    assert sum(map(len, found)) <= 0.001 * 200 * count


def test_lone_outliers_and_jumps_between_two_values_are_no_change_and_hide_none():
    logs = steps(0, 0.1)
    logs[[5, 12, 24, 33]] += 0.4
    assert indexes(logs) == [20]
    logs = noise(60)
    logs[::9] += 0.4
    assert indexes(logs) == []
    rng = np.random.default_rng(4)
    assert indexes(noise(160) + np.where(rng.random(160) < 0.3, 0.08, 0)) == []


def test_what_later_runs_took_back_is_no_change_in_the_end():
    bump = np.r_[noise(30), 0.045 + noise(6, seed=1), noise(60, seed=2)]
    assert indexes(bump[:36])
    assert len(indexes(bump)) in (0, 2)  # never a change without its end


def test_many_series_at_once_are_searched_as_each_alone():
    rng = np.random.default_rng(7)
    series = [
        steps(0, rng.choice([0, 0.1, -0.1]), runs=int(rng.integers(1, 40)), seed=seed)
        for seed in range(AT_A_TIME + 3)
    ]
    assert search(series) == [search([one])[0] for one in series]
    assert sum(map(len, search(series))) > 5


def mixed(seed):
    """Steps in noise that is not always normal, with outliers in every third series."""
    rng = np.random.default_rng(seed)
    runs = int(rng.integers(30, 120))
    log_sd = rng.choice([0.004, 0.01, 0.02, 0.03, 0.05])
    logs = log_sd * (rng.standard_normal(runs) if seed % 2 else rng.standard_t(3, runs))
    for _ in range(int(rng.integers(1, 3))):
        start = int(rng.integers(5, runs))
        logs[start:] += rng.choice([-0.1, -0.04, -0.02, 0.018, 0.02, 0.025, 0.03, 0.05, 0.1])
    if seed % 3 == 0:
        logs += 0.1 * (rng.random(runs) < 0.15)
    return logs


# First run of each change, and after how many runs it shows, by seed. Chosen so that each constant
# of the search and of the noise model decides one of them: another value, by 15 % or 1, finds
# something else. So these are no claim about what is right: tuning anew finds new ones.
FOUND = {
    63: [(34, 39)],
    69: [(16, 21)],
    75: [(48, 52), (81, 85), (85, 89)],
    129: [(50, 56)],
    207: [(14, 34)],
    222: [(22, 41)],
    226: [(38, 43), (66, 81)],
    248: [(15, 23)],
    303: [(18, 22), (29, 41)],
    352: [(35, 39)],
    414: [(97, 118)],
    513: [(37, 76)],
    597: [],
    617: [(15, 52)],
}


def test_the_constants_decide_as_they_were_tuned():
    found = search([mixed(seed) for seed in FOUND])
    assert {
        seed: [(one.index, one.shown_after) for one in changes]
        for seed, changes in zip(FOUND, found, strict=True)
    } == FOUND


def test_noise_with_a_memory_is_no_change():
    rng = np.random.default_rng(3)
    logs = []
    for correlation in (0.3, 0.6):
        for _ in range(40):
            own = rng.standard_normal(120)
            for run in range(1, own.size):
                own[run] = correlation * own[run - 1] + (1 - correlation**2) ** 0.5 * own[run]
            logs.append(0.03 * own)
    runs = 40 * 120
    first, second = (sum(map(len, search(part))) for part in (logs[:40], logs[40:]))
    assert first <= 0.003 * runs
    assert second <= 0.005 * runs


def test_a_drift_is_one_finding_that_says_how_fast():
    logs = noise(160, log_sd=0.01) + np.where(np.arange(160) > 30, np.arange(160) - 30, 0) * 0.001
    (found,) = search([logs])[0]
    assert found.drift == pytest.approx(0.001, rel=0.3)
    assert search([steps(0, 0.05, 0.1, runs=30)])[0][-1].drift is None
    # Without noise it is exactly its own slope.
    logs = 0.001 * np.maximum(np.arange(60) - 30, 0)
    last, step = (Step(first, shift=0.01, start=0, base=0.0) for first in (39, 49))
    assert drift_of(logs, last, step, scale=0.01) == pytest.approx(0.001)


def test_a_step_after_a_wild_beginning_and_the_end_of_a_bump_are_found_as_fast_as_a_change():
    logs = np.r_[noise(30), 0.25 + noise(4, seed=1), noise(30, seed=2)]
    bump, end = search([logs])[0]
    assert (bump.index, bump.shown_after) == (30, 34)
    assert end.index == 34
    assert end.shown_after <= 40
    wild = noise(12, seed=1, log_sd=0.3)
    (*_, found) = search([np.r_[wild, noise(30, seed=2), 0.26 + noise(20, seed=3)]])[0]
    assert found.index == 42
    assert found.shown_after <= 48


def test_a_prefix_finds_what_the_schedule_would_have_told_then():
    logs = steps(0, 0.1, 0, runs=15)
    (first, second) = search([logs])[0]
    assert search([logs[: first.shown_after]])[0] == [first]
    assert search([logs[: first.shown_after - 1]])[0] == []
    assert second.shown_after <= logs.size


def test_no_series_and_short_histories_are_no_error():
    assert search([]) == []
    assert [search([noise(runs)]) for runs in range(16)] == [[[]]] * 16


def test_windows_end_before_their_run():
    logs = np.arange(100.0)
    found = windows_before(logs, np.array([3, 80]))
    assert found.shape == (2, WINDOW)
    assert found[0, -3:].tolist() == [0.0, 1.0, 2.0]
    assert np.isnan(found[0, :-3]).all()
    assert found[1].tolist() == list(np.arange(80.0 - WINDOW, 80))
