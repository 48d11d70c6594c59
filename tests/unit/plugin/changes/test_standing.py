"""What is said of a series' newest run."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchmark.changes.detection import DetectorSettings
from batchmark.changes.standing import LEAST_ON_LEVEL, standings
from tests.builders.changed_series import build_history, build_key, build_point, noisy, run_id
from tests.builders.hostile import fuzzed


def series(*, newest=1.0, runs=30, workload="matmul"):
    """Runs with 1 % of noise, the newest so many times as slow."""
    values = 0.1 * np.exp(np.random.default_rng(7).normal(0, 0.01, runs))
    return build_history(build_key(workload=workload), [*values[:-1], 0.1 * newest])


@pytest.mark.parametrize(
    ("newest", "runs", "word"),
    [
        (1.01, 30, "within the noise"),
        (1.34, 30, "beyond the noise"),
        (0.7, 30, "beyond the noise"),
        (1.34, 8, "beyond the noise"),
        (1.34, 7, "not known yet"),
        (1.34, 1, "not known yet"),
    ],
)
def test_a_newest_run_is_judged_by_the_noise_of_those_before_it(newest, runs, word):
    one = series(newest=newest, runs=runs)
    found = standings([one])[one.key]
    assert (found.word, found.point) == (word, None)


def test_a_level_that_changed_is_that_of_its_own_series():
    values = [*series().values, *(1.3 * series(runs=10).values)]
    one = build_history(build_key(), values)
    found = standings([one, series(workload="blur")])
    assert (found[one.key].word, found[one.key].level.runs) == ("within the noise", 9)
    assert found[build_key(workload="blur")].word == "within the noise"
    assert found[build_key(workload="blur")].point is None


def test_a_change_needs_the_evidence_that_the_settings_ask_for():
    values = [*series().values, *(1.03 * series(runs=6).values)]
    one = build_history(build_key(), values)

    assert standings([one])[one.key].point
    strict = DetectorSettings(false_alerts_a_month=1e-9)
    assert standings([one], strict)[one.key].point is None


@pytest.mark.parametrize(
    ("first", "word", "runs"),
    [
        (29, "a change", 29),
        (28, "not known yet", 1),
        (26, "within the noise", LEAST_ON_LEVEL),
        (40, "within the noise", 29),  # not a run of this series
    ],
)
def test_a_change_that_an_alert_tells_of_counts_where_none_is_found(first, word, runs):
    one = series()
    told = build_point(one.key, run=first)
    found = standings([one], alerted=[told])[one.key]
    assert (found.word, found.level.runs) == (word, runs)
    assert found.point == (told if first < 30 else None)


@pytest.mark.parametrize(("first", "runs"), [(21, 9), (26, 3)])
def test_a_change_that_an_alert_tells_of_counts_once(first, runs):
    values = [*series().values[:20], *(1.3 * series(runs=10).values)]
    one = build_history(build_key(), values)
    found = standings([one], alerted=[build_point(one.key, run=first)])[one.key]
    assert found.level.runs == runs
    assert found.point.first_run_id == run_id(20 if first == 21 else first)


def test_a_price_is_held_against_its_level_and_has_no_noise():
    one = build_history(build_key(workload=None), [1.0] * 20 + [1.2] * 6, metric="price")
    found = standings([one])[one.key]
    assert found.word is None
    assert (found.level.runs, found.level.median) == (5, pytest.approx(1.2))
    assert found.point.first_run_id == run_id(20)


LEVELS = st.lists(
    st.tuples(st.integers(1, 14), st.sampled_from([0.7, 0.96, 1.0, 1.04, 1.3, 2.0])),
    min_size=1,
    max_size=3,
)


@given(LEVELS, st.sampled_from([0.0, 0.01, 0.05]), st.integers(0, 99))
@fuzzed(12)
def test_a_further_run_moves_no_level_unless_it_shows_a_change(levels, log_sd, seed):
    """A series is looked at after each of its runs, and again as if that run were far off."""
    values = np.concatenate([np.full(runs, level) for runs, level in levels])
    values *= noisy(values.size, seed, log_sd)
    grown = [
        build_history(build_key(f"g5.{runs}xlarge"), values[:runs])
        for runs in range(1, values.size + 1)
    ]
    odd = [replace(one, values=np.r_[one.values[:-1], 9 * one.values[-1]]) for one in grown]
    of_grown, of_odd = (list(standings(each).values()) for each in (grown, odd))
    assert of_grown[0].level is None
    for newest, (standing, other) in enumerate(zip(of_grown, of_odd, strict=True)):
        if newest:
            since = begins(standing)
            assert standing.level.runs == newest - since
            middle = np.exp(np.median(np.log(values[since:newest])))
            assert standing.level.median == pytest.approx(middle)
        if begins(standing) == begins(other):
            assert standing.level == other.level


def begins(standing):
    """The first run of the level that the last change began."""
    return int(standing.point.first_run_id.removeprefix("run-")) if standing.point else 0
