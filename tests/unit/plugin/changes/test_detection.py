"""Changes of level in histories as they come: clean, odd, broken, and many at once."""

import math
import warnings

import numpy as np
import pytest

from batchmark.changes.detection import (
    DetectorSettings,
    controlled_false_discoveries,
    detect,
    detect_changes,
    level,
    p_value,
)
from batchmark.changes.noise_model import Prior
from batchmark.changes.records import Series
from batchmark.changes.timelines import timeline
from batchmark.report.changes.words import causes
from tests.builders.alerts import change, point
from tests.builders.changed_series import LEVEL, build_history, build_key, moment, noisy, run_id


@pytest.fixture(autouse=True)
def _quiet_arithmetic():
    """No history makes numpy or scipy warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def stepped(before=20, after=12, factor=1.1, **noise):
    return noisy(before + after, **noise) * np.r_[np.ones(before), np.full(after, factor)]


def changes_of(values, metric="time", **fields):
    return detect_changes([build_history(build_key(**fields), values, metric=metric)])


# What a change is


@pytest.mark.parametrize(("factor", "kind"), [(1.1, "slower"), (0.9, "faster")])
def test_a_step_either_way_is_one_change_at_its_first_run(factor, kind):
    (point,) = changes_of(stepped(factor=factor))
    assert (point.kind, point.first_run_id, point.last_run_id) == (kind, "run-20", "run-19")
    assert point.first_recorded_at == moment(20)
    assert point.change == pytest.approx(factor - 1, abs=0.01)
    assert (point.before.runs, point.after.runs) == (20, 12)
    assert point.before.median == pytest.approx(LEVEL, rel=0.01)
    assert point.p_value < 1e-6


def test_a_step_and_its_end_are_two_changes_each_of_the_runs_a_later_look_may_place_it_at():
    there, back = changes_of(np.r_[stepped(after=12), noisy(12, seed=1)])
    assert (there.kind, back.kind) == ("slower", "faster")
    assert back.first_run_id == "run-32"
    assert there.after.runs == 12
    (point,) = changes_of(stepped())
    assert point.near_run_ids == tuple(run_id(number) for number in range(17, 24))
    (late,) = changes_of(stepped(after=5))
    assert late.near_run_ids[-1] == "run-23"


@pytest.mark.parametrize(
    ("metric", "factor", "kind"),
    [
        ("price", 1.2, "dearer"),
        ("price", 0.8, "cheaper"),
        ("noise", 3.0, "noisier"),
        ("noise", 1 / 3, "steadier"),
        ("speedup", 0.8, "speedup lost"),
        ("speedup", 1.25, "speedup gained"),
    ],
)
def test_each_metric_has_its_own_kinds(metric, factor, kind):
    against = "c5.2xlarge" if metric == "speedup" else None
    (point,) = changes_of(stepped(factor=factor), metric, against=against)
    assert point.kind == kind


def test_a_speedup_that_falls_is_looked_for_as_a_time_that_rises():
    values = stepped(factor=1.03, after=10, log_sd=0.012)
    risen = changes_of(values)
    lost = changes_of(1 / values, "speedup", against="c5.2xlarge")
    assert [point.first_run_id for point in lost] == [point.first_run_id for point in risen]


WEAK = stepped(before=20, after=6, factor=1.035, log_sd=0.011, seed=5)


@pytest.mark.parametrize(
    ("values", "settings"),
    [
        (stepped(factor=1.05, log_sd=0.005), {"least_change": 0.08}),
        (stepped(before=20, after=60), {"runs": 40}),  # only the newest are looked at
        (WEAK, {"false_alerts_a_month": 1e-5}),
    ],
)
def test_what_the_settings_leave_out_is_no_change(values, settings):
    history = build_history(build_key(), values.copy())
    assert detect_changes([history])
    assert detect_changes([history], DetectorSettings(**settings)) == []
    assert (history.values == values).all(), "it stays as it was given"


def test_a_calibration_that_knows_more_noise_asks_for_more():
    values = stepped(before=9, after=5, factor=1.06, log_sd=0.008)
    history = build_history(build_key(), values)
    assert detect_changes([history])
    assert detect_changes([history], priors={history.key: Prior(log_sd=0.1, runs=5)}) == []


# Many series


def test_a_change_is_found_among_many_quiet_series_though_not_all_that_would_stand_alone():
    quiet = [
        build_history(build_key(parameters=f'{{"size":{size}}}'), noisy(40, seed=size))
        for size in range(300)
    ]
    changed = build_history(build_key("c5.2xlarge"), stepped(before=28))
    (found,) = detect_changes([*quiet, changed])
    assert found.series == changed.key
    assert controlled_false_discoveries([0.01], 1, 0.05).tolist() == [True]
    assert controlled_false_discoveries([0.01], 1000, 0.05).tolist() == [False]
    assert controlled_false_discoveries([1e-5, 0.01], 1000, 0.05).tolist() == [True, False]
    assert controlled_false_discoveries([], 1000, 0.05).tolist() == []


def test_the_more_series_of_a_metric_the_more_evidence_each_needs():
    times = [build_history(build_key(), WEAK)]
    quiet = [
        build_history(build_key(f"c5.{size}xlarge"), noisy(26, seed=size)) for size in range(2, 300)
    ]
    noises = [build_history(one.key, one.values, metric="noise") for one in quiet]
    settings = DetectorSettings(false_alerts_a_month=0.1)
    assert detect_changes([*times, *noises], settings)
    assert detect_changes([*times, *quiet], settings) == []


# Histories that are odd


@pytest.mark.parametrize(
    "values",
    [
        [],
        [0.01],
        [0.01, 0.02],
        [0.01] * 60,
        [0.01] * 20 + [0.02] + [0.01] * 19,
        [math.nan] * 30,
        [0.0] * 30,
        [math.inf] * 30,
        [5e-324] * 30,
        [1.7e308] * 30,
    ],
    ids=["empty", "one", "two", "constant", "one off", "nan", "zero", "inf", "tiny", "huge"],
)
def test_a_history_without_a_change_has_none(values):
    assert changes_of(values) == []
    assert detect(values) == []


@pytest.mark.parametrize("missing", [math.nan, math.inf, 0.0, -0.01])
def test_runs_without_a_figure_are_left_out_and_the_change_is_still_at_its_run(missing):
    values = stepped()
    values[[3, 4, 11, 19, 26]] = missing
    (point,) = changes_of(values)
    assert (point.first_run_id, point.last_run_id) == ("run-20", "run-18")
    assert (point.before.runs, point.after.runs) == (16, 11)
    assert detect(values.tolist()) == [20]


def test_a_step_between_constants_is_found():
    (point,) = changes_of([0.01] * 20 + [0.011] * 8)
    assert point.first_run_id == "run-20"
    assert point.before.spread == 0


@pytest.mark.parametrize("factor", [1e9, 1e-9])
def test_one_run_that_is_a_milliard_times_off_is_no_change_and_hides_none(factor):
    quiet = noisy(40)
    quiet[[15, 30]] *= factor
    assert changes_of(quiet) == []
    values = stepped(before=24, after=12)
    values[[10, 27]] *= factor
    (point,) = changes_of(values)
    assert point.first_run_id == "run-24"
    assert point.change == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("factor", [1e3, 1e6, 1e9, 1 / 3600])
def test_changed_units_are_one_change(factor):
    (point,) = changes_of(stepped(factor=factor, log_sd=0.02))
    assert point.first_run_id == "run-20"
    assert math.isfinite(point.change)
    assert 0 <= point.p_value < 1e-6


@pytest.mark.parametrize(
    ("factor", "hint"),
    [
        (1e3, "1,000 times as much"),
        (1.02e-6, "1,000,000 times less"),
        (59.4, "60 times as much"),
        (1.1, None),
        (70, None),
    ],
)
def test_a_factor_between_units_is_hinted_at(factor, hint):
    told = "; ".join(causes(change(point(before=1.0, after=factor))))
    assert ("unit" in told) == (hint is not None)
    assert hint is None or hint in told


def test_a_clock_that_goes_backwards_shifts_a_change_by_the_runs_it_swaps():
    values = stepped()
    history = build_history(build_key(), values)
    at = history.recorded_at.copy()
    at[19] -= np.timedelta64(36, "h")  # before the run before it
    at[-1] -= np.timedelta64(60, "h")  # the newest is recorded before two others
    set_back = Series(history.key, "time", history.run_ids, at, values)
    assert timeline(set_back).run_ids[17:20] == ["run-17", "run-19", "run-18"]
    assert timeline(set_back).run_ids[-3:] == ["run-31", "run-29", "run-30"]
    (point,) = detect_changes([set_back])
    assert (point.first_run_id, point.last_run_id) == ("run-20", "run-18")


# The figures of a change


def test_a_level_has_a_spread_and_a_p_value_is_the_smaller_the_surer():
    assert level(np.log([0.5]), 1).spread is None
    found = level(np.log([0.9, 1.0, 1.1]), 3)
    assert found.median == pytest.approx(1)
    assert found.spread == pytest.approx(0.15, abs=0.02)
    logs = 0.01 * np.random.default_rng(0).standard_normal(30)
    same, small, large = (p_value(logs[:20], logs[20:] + shift) for shift in (0, 0.02, 0.1))
    assert large < small < same <= 1
    assert p_value(logs[:1], logs[1:2]) == 1
    assert p_value(np.zeros(5), np.full(5, 0.1)) < 1e-6
    logs = 0.01 * np.random.default_rng(0).standard_normal(40)
    after = logs[20:] + 0.05
    wild = after.copy()
    wild[3] += 20
    assert p_value(logs[:20], wild) < 1e-6
    assert np.log10(p_value(logs[:20], wild)) == pytest.approx(
        np.log10(p_value(logs[:20], after)), rel=0.5
    )


# The contract of those who judge detectors


def test_bare_numbers_above_0_in_and_indexes_out():
    (index,) = detect([value * 1e6 for value in stepped()])
    assert (index, type(index)) == (20, int)
    with pytest.raises(ValueError, match=r"the figures range from -2 to -1: use figures above 0"):
        detect([-1.0, -2.0])
